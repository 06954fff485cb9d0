// Kernels for any x86-64 or other machine, and the double versions for gradient checks.
#define PS_KERNEL_SET baseline
#define PS_KERNEL_DOUBLE
#include "parascale_torch/models/vit/kernels_impl.h"
