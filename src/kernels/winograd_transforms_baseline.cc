#define GLUINO_ISA baseline
#include "kernels/winograd_transforms_impl.h"
