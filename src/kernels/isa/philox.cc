#include "kernels/isa/philox.h"

#include "kernels/isa/primitives.h"

namespace gluino::kernels {

GLUINO_TABLE_FOR_CPU(PhiloxTable, kPhiloxTable, philox_table)

}  // namespace gluino::kernels
