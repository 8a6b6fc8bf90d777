#define GLUINO_ISA baseline
#include "kernels/weight_grad_tiles_impl.h"
