#define GLUINO_ISA avx512
#include "kernels/primitives_impl.h"
