#define GLUINO_ISA baseline
#include "kernels/rows_impl.h"
