// Files of arrays and one-file models.
#include "gluino/io.h"

#include <pybind11/stl.h>

#include <cstring>

#include "base/atomic_file.h"
#include "base/file.h"
#include "dispatch/untraceable.h"
#include "gluino/data.h"
#include "gluino/image.h"
#include "gluino/recordio.h"
#include "gluino/vision.h"
#include "io/zip.h"
#include "object.h"
#include "tensor/impl.h"

namespace gluino::python {
namespace {

// A program would do it once.
void refuse_in_trace(const std::string& what) {
  if (is_tracing()) throw Untraceable("it " + what + " a file");
}

// From Python: a list of (name, array, parts), where parts is None or (data, [indices ...]) of a sparse array.
NamedTensors named(const py::list& items, SparseArrays& sparse) {
  NamedTensors out;
  for (py::handle item : items) {
    const auto [name, object, parts] = py::cast<std::tuple<std::string, py::object, py::object>>(item);
    const Tensor array = parts.is_none() ? unwrap(object.ptr()) : unwrap_as_is(object.ptr());
    if (!parts.is_none()) {
      auto [data, indices] = py::cast<std::pair<Tensor, Tensors>>(parts);
      sparse[out.size()] = {data, indices};
    }
    out.emplace_back(name, array);
  }
  return out;
}
py::list listed(const NamedTensors& tensors, const SparseArrays& sparse, Flavour flavour = kLegacy) {
  py::list out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto parts = sparse.find(i);
    const Tensor& t = tensors[i].second;
    const py::object array = !t.defined()            ? py::object(py::none())
                             : parts != sparse.end() ? py::object(py::make_tuple(from_shape(impl_of(t).shape), dtype_name(t.dtype())))
                                                     : py::reinterpret_steal<py::object>(wrap(t, flavour));
    out.append(py::make_tuple(tensors[i].first, array,
                              parts == sparse.end() ? py::object(py::none()) : py::make_tuple(parts->second.data, parts->second.indices)));
  }
  return out;
}

// Files that appear whole or not at all, for what Python writes.
void add_files(py::module_& m) {
  m.def("write_files", [](const std::vector<std::pair<std::string, py::bytes>>& items) {
    refuse_in_trace("writes");
    std::vector<FileContent> files;
    for (const auto& [path, bytes] : items) files.push_back({path, std::string_view(bytes)});
    const ReleaseLock release;
    write_files(files);
  });
  py::class_<AtomicFile>(m, "AtomicFile")
      .def(py::init<std::string>())
      .def("write",
           [](AtomicFile& file, const py::bytes& bytes) {
             const std::string_view view(bytes);
             const ReleaseLock release;
             file.write(view);
           })
      .def("commit", [](AtomicFile& file) {
        const ReleaseLock release;
        file.commit();
      });
}

void add_records(py::module_& m) {
  using recordio::Reader;
  using recordio::Writer;
  py::class_<Reader>(m, "RecordReader")
      .def(py::init<std::string>())
      .def("read",
           [](Reader& r) -> py::object {
             refuse_in_trace("reads");
             const std::optional<std::string> record = r.read();
             return record ? py::object(py::bytes(*record)) : py::none();
           })
      .def("seek", &Reader::seek)
      .def("tell", &Reader::tell);
  // Labels are the bytes of float32 numbers; None for one that is no list.
  m.def("pack_record", [](const std::optional<py::bytes>& labels, double label, uint64_t id, uint64_t id2, const py::bytes& content) {
    recordio::Header h{.label = {static_cast<float>(label)}, .id = id, .id2 = id2, .is_list = labels.has_value()};
    if (labels) {
      const std::string_view bytes(*labels);
      h.label.resize(bytes.size() / sizeof(float));
      std::memcpy(h.label.data(), bytes.data(), h.label.size() * sizeof(float));
    }
    return py::bytes(recordio::pack(h, std::string_view(content)));
  });
  m.def("unpack_record", [](const py::bytes& record) {
    const auto [h, content] = recordio::unpack(std::string_view(record));
    const py::bytes labels(reinterpret_cast<const char*>(h.label.data()), h.label.size() * sizeof(float));
    return py::make_tuple(h.is_list ? h.label.size() : 0, labels, h.id, h.id2, py::bytes(content));
  });
  m.def("read_record_index", &recordio::read_text_index);
  py::class_<Writer>(m, "RecordWriter")
      .def(py::init<std::string, std::string>())
      .def("append", [](Writer& w, const py::bytes& record) { return w.append(std::string_view(record)); })
      .def("add_to_index", [](Writer& w, const std::string& key, int64_t offset) { w.add_to_index(key, offset); })
      .def("tell", &Writer::tell)
      .def("abandon", &Writer::abandon)
      .def("close", [](Writer& w) {
        const ReleaseLock release;
        w.close();
      });
}

}  // namespace

void add_io(py::module_& m) {
  add_files(m);
  add_records(m);
  m.def(
      "load_tensors",
      [](const std::string& path, bool numpy) {
        refuse_in_trace("reads");
        SparseArrays sparse;
        const NamedTensors tensors = load_tensors(path, &sparse);
        return listed(tensors, sparse, numpy ? kNumpy : kLegacy);
      },
      py::arg("path"), py::arg("numpy") = false);
  m.def("read_tensors", [](const py::bytes& bytes) {
    SparseArrays sparse;
    const NamedTensors tensors = read_tensors(std::string_view(bytes), "buffer", &sparse);
    return listed(tensors, sparse);
  });
  m.def("save_tensors", [](const std::string& path, const py::list& items) {
    refuse_in_trace("writes");
    SparseArrays sparse;
    const NamedTensors tensors = named(items, sparse);
    const ReleaseLock release;
    save_tensors(path, tensors, sparse);
  });
  m.def("write_params", [](const py::list& items) {
    SparseArrays sparse;
    const NamedTensors tensors = named(items, sparse);
    return py::bytes(write_params(tensors, sparse));
  });
  m.def("read_idx", &vision::read_idx);
  m.def("read_csv", &data::load_csv);
  m.def("decode_image", [](const py::bytes& bytes, bool colour) {
    const std::string_view view(bytes);
    const ReleaseLock release;
    return image::imdecode(view, colour ? image::Channels::colour : image::Channels::gray);
  });
  m.def("encode_image",
        [](const Tensor& t, const std::string& format, int quality) { return py::bytes(image::imencode(t, format, quality)); });
  m.def("write_zip", [](const std::string& path, const std::vector<std::pair<std::string, py::bytes>>& entries) {
    refuse_in_trace("writes");
    io::ZipEntries all;
    for (const auto& [name, content] : entries) all.emplace_back(name, std::string(std::string_view(content)));
    const ReleaseLock release;
    write_file(path, io::write_zip(all));
  });
  m.def("read_file", [](const std::string& path) {
    refuse_in_trace("reads");
    return py::bytes(read_file(path));
  });
  m.def("read_zip", [](const std::string& path) {
    refuse_in_trace("reads");
    py::dict d;
    for (const auto& [name, content] : io::read_zip(read_file(path), path)) d[name.c_str()] = py::bytes(content);
    return d;
  });
}

}  // namespace gluino::python
