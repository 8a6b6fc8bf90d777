#include "dispatch/composition.h"

namespace gluino {

static ComposedShapes installed_shapes = nullptr;

void install_composed_shapes(ComposedShapes f) { installed_shapes = f; }
std::vector<Shape> composed_shapes(const OpDef& op, const void* attrs, std::span<const Shape> inputs) {
  return installed_shapes(op, attrs, inputs);
}

}  // namespace gluino
