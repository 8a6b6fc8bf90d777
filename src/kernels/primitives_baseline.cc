#define GLUINO_ISA baseline
#include "kernels/primitives_impl.h"
