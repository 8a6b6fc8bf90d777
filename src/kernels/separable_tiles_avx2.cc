#define GLUINO_ISA avx2
#include "kernels/separable_tiles_impl.h"
