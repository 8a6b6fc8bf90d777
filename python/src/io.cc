// Files of arrays and one-file models.
#include "gluino/io.h"

#include <pybind11/stl.h>

#include "base/file.h"
#include "io/zip.h"
#include "object.h"

namespace gluino::python {
namespace {

NamedTensors named(const py::list& items) {
  NamedTensors out;
  for (py::handle item : items) {
    const auto pair = py::cast<py::tuple>(item);
    out.emplace_back(py::cast<std::string>(pair[0]), unwrap(py::object(pair[1]).ptr()));
  }
  return out;
}
py::list listed(const NamedTensors& tensors) {
  py::list out;
  for (const auto& [name, t] : tensors) out.append(py::make_tuple(name, t));
  return out;
}

}  // namespace

void add_io(py::module_& m) {
  m.def("load_tensors", [](const std::string& path) { return listed(load_tensors(path)); });
  m.def("save_tensors", [](const std::string& path, const py::list& items) { save_tensors(path, named(items)); });
  m.def("read_tensors", [](const py::bytes& bytes) { return listed(read_tensors(std::string_view(bytes), "buffer")); });
  m.def("write_params", [](const py::list& items) { return py::bytes(write_params(named(items))); });
  m.def("write_zip", [](const std::string& path, const std::vector<std::pair<std::string, py::bytes>>& entries) {
    io::ZipEntries all;
    for (const auto& [name, content] : entries) all.emplace_back(name, std::string(std::string_view(content)));
    write_file(path, io::write_zip(all));
  });
  m.def("read_zip", [](const std::string& path) {
    py::dict d;
    for (const auto& [name, content] : io::read_zip(read_file(path), path)) d[name.c_str()] = py::bytes(content);
    return d;
  });
}

}  // namespace gluino::python
