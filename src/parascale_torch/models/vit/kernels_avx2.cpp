// Kernels for machines with AVX2 and FMA; the build compiles only this file with those flags.
#define PS_KERNEL_SET avx2
#include "parascale_torch/models/vit/kernels_impl.h"
