#define GLUINO_ISA avx2
#include "kernels/rows_impl.h"
