#define GLUINO_ISA avx2
#include "kernels/winograd_transforms_impl.h"
