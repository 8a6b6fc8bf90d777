#define GLUINO_ISA avx2
#include "kernels/primitives_impl.h"
