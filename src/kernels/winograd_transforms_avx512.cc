#define GLUINO_ISA avx512
#include "kernels/winograd_transforms_impl.h"
