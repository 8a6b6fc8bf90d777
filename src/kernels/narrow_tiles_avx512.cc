#define GLUINO_ISA avx512
#include "kernels/narrow_tiles_impl.h"
