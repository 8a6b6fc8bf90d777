// Whether new arrays and shapes follow NumPy: for the process, and for a thread that says otherwise.
#include <array>
#include <atomic>
#include <optional>

#include <pybind11/stl.h>

#include "object.h"

namespace gluino::python {
namespace {

std::array<std::atomic<bool>, 2> of_process;
thread_local std::array<std::optional<bool>, 2> of_thread;

bool is_on(size_t kind) { return of_thread[kind].value_or(of_process[kind]); }

}  // namespace

bool is_numpy_mode() { return is_on(0); }
char numpy_mode_key() { return static_cast<char>('0' + is_on(0) + 2 * is_on(1)); }

void add_numpy_mode(py::module_& m) {
  const auto checked = [](size_t kind) { return kind < 2 ? kind : throw py::index_error("there are two kinds, arrays and shapes"); };
  m.def(
      "numpy_mode", [=](size_t kind) { return is_on(checked(kind)); }, "Of arrays (0) or shapes (1).");
  m.def(
      "numpy_mode_of_thread", [=](size_t kind) { return of_thread[checked(kind)]; }, "None where the thread follows the process.");
  m.def("set_numpy_mode", [=](size_t kind, bool on) { of_process[checked(kind)] = on; });
  m.def("set_numpy_mode_of_thread", [=](size_t kind, std::optional<bool> on) { of_thread[checked(kind)] = on; });
}

}  // namespace gluino::python
