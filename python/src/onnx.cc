// An ONNX model as a function of arrays: what mx.onnx's blocks run.
#include <pybind11/stl.h>

#include "dispatch/mode.h"
#include "gluino/onnx.h"
#include "object.h"
#include "onnx/program.h"
#include "onnx/symbol.h"

namespace gluino::python {
namespace {

py::list described(const std::vector<onnx::ValueData>& values) {
  py::list out;
  for (const auto& v : values) {
    py::object shape = py::none();
    if (v.has_shape) {
      py::list extents;
      for (size_t i = 0; i < v.extents.size(); ++i)
        extents.append(v.extents[i] ? py::object(py::int_(*v.extents[i])) : py::object(py::str(v.extent_names[i])));
      shape = py::tuple(extents);
    }
    // Outputs may lack a type, which nobody needs; inputs of a strange one are refused when they are given.
    py::object dtype = py::none();
    if (v.type != onnx::ElementType::undefined && v.type != onnx::ElementType::text && v.is_tensor)
      dtype = py::str(std::string(dtype_name(onnx::carrier(v.type, v.name))));
    out.append(py::make_tuple(v.name, dtype, shape));
  }
  return out;
}

py::list named(const std::vector<std::pair<std::string, Tensor>>& tensors) {
  py::list out;
  for (const auto& [name, t] : tensors) out.append(py::make_tuple(name, wrap_all({t}, kLegacy)));
  return out;
}

py::object run(const onnx::Program& program, const py::list& inputs, const py::list& parameters, bool numpy) {
  const auto tensors = [](const py::list& arrays) {
    Tensors out;
    for (const py::handle a : arrays) out.push_back(unwrap(a.ptr()));
    return out;
  };
  const Tensors given = tensors(inputs), learnt = tensors(parameters);
  Tensors results;
  {
    const ReleaseLock release(!is_tracing());
    results = program.run(given, learnt);
  }
  return wrap_all(results, numpy ? kNumpy : kLegacy);
}

}  // namespace

void add_onnx(py::module_& m) {
  py::class_<onnx::Program, std::shared_ptr<onnx::Program>>(m, "OnnxProgram")
      .def(py::init([](const std::string& path) {
        const ReleaseLock release;
        return std::make_shared<onnx::Program>(onnx::read_model(path), path);
      }))
      .def("inputs", [](const onnx::Program& p) { return described(p.inputs()); })
      .def("outputs", [](const onnx::Program& p) { return described(p.outputs()); })
      .def("parameters", [](const onnx::Program& p) { return named(p.parameters()); })
      .def("is_state", &onnx::Program::is_state)
      .def("__call__", &run)
      .def("symbol", [](const onnx::Program& p, const std::map<std::string, py::tuple>& shapes) {
        ShapeMap known;
        for (const auto& [name, shape] : shapes) known[name] = to_shape(shape);
        onnx::ModelSymbol s = onnx::to_symbol(p, known);
        return py::make_tuple(s.symbol, named(s.parameters));
      });
  m.def("onnx_export", [](const Symbol& symbol, const py::dict& parameters, const std::string& path, const py::list& inputs,
                          int operator_set, bool external_data) {
    NamedTensors values;
    for (const auto& [name, value] : parameters) values.emplace_back(py::cast<std::string>(name), unwrap(value.ptr()));
    std::vector<onnx::InputShape> shapes;
    for (const py::handle item : inputs) {
      const auto [name, shape, dtype, names] = py::cast<std::tuple<std::string, py::tuple, std::string, std::vector<std::string>>>(item);
      shapes.push_back({name, to_shape(shape), parse_dtype(dtype), names});
    }
    const ReleaseLock release;
    onnx::export_model(symbol, values, path, shapes, {.operator_set = operator_set, .external_data = external_data});
  });
  m.def("onnx_exported_operators", &onnx::exported_operators);
}

}  // namespace gluino::python
