#include "kernels/rows/rows.h"

#include "kernels/isa/primitives.h"

namespace gluino::kernels {

GLUINO_TABLE_FOR_CPU(RowTable, kRowTable, row_table)

}  // namespace gluino::kernels
