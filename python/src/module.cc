// gluino._core: the extension module. gluino/*.py are its only users.
#include <pybind11/stl.h>

#include "cli/command_line.h"
#include "gluino/version.h"
#include "object.h"

namespace gluino::python {

static void register_package(py::handle nd, py::handle np_array, py::handle symbol, py::handle np_symbol, py::handle name_of_call,
                             py::handle to_dtype_name, py::handle errors, py::handle traced_number) {
  for (py::handle h : {nd, np_array, symbol, np_symbol, name_of_call, to_dtype_name, errors, traced_number}) h.inc_ref();  // for ever
  auto type = [](py::handle h) { return reinterpret_cast<PyTypeObject*>(h.ptr()); };
  registered = {{type(nd), type(np_array)}, {type(symbol), type(np_symbol)}, name_of_call.ptr(), to_dtype_name.ptr(), errors.ptr(),
                type(traced_number)};
}

void add_onnx(py::module_& m);
void add_distributed(py::module_& m);
void add_numpy_mode(py::module_& m);
void add_optimizers(py::module_& m);
void add_named(py::module_& m);

PYBIND11_MODULE(_core, m) {
  py::register_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const Error&) {
      set_python_error();
    }
  });
  m.attr("version") = GLUINO_VERSION;
  add_arrays(m);
  add_arithmetic(m);
  add_operators(m);
  add_symbols(m);
  add_autograd(m);
  add_hybrid(m);
  add_io(m);
  add_onnx(m);
  add_distributed(m);
  add_numpy_mode(m);
  add_optimizers(m);
  add_named(m);
  m.def("register_package", &register_package);
  m.def("run_command_line", [](const std::string& self, const std::vector<std::string>& arguments) {
    const ReleaseLock release;
    return cli::run_command_line(self, arguments);
  });
}

}  // namespace gluino::python
