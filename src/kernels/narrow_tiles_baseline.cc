#define GLUINO_ISA baseline
#include "kernels/narrow_tiles_impl.h"
