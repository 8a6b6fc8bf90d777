#define GLUINO_ISA baseline
#include "kernels/separable_tiles_impl.h"
