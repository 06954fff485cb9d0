// Kernels for machines with AVX-512 (F, BW, DQ, VL); the build compiles only this file with those flags.
#define PS_KERNEL_SET avx512
#include "parascale_torch/models/vit/kernels_impl.h"
