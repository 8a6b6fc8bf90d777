#define GLUINO_ISA avx2
#include "kernels/narrow_tiles_impl.h"
