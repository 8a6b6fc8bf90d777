// MXNet's .params: a list of arrays, with or without names, in the layouts of every era.
#include <cstring>

#include "base/file.h"
#include "gluino/io.h"
#include "gluino/op.h"
#include "io/bytes.h"
#include "io/dtype_codes.h"
#include "io/safetensors.h"
#include "tensor/impl.h"

namespace gluino {
namespace {

using io::FileDType;
using io::Reader;

constexpr uint64_t kListMagic = 0x112;
constexpr uint32_t kV1 = 0xF993fac8, kV2 = 0xF993fac9, kV3 = 0xF993faca;
// A sparse array may take this many bytes, plus this many times the file, when it becomes dense.
constexpr uint64_t kSparseFree = uint64_t{16} << 20, kSparseFactor = 4096;
enum StorageType : int32_t { kDense = 0, kRowSparse = 1, kCsr = 2 };

uint64_t checked_bytes(const Reader& r, const Shape& shape, int width) {
  uint64_t size = static_cast<uint64_t>(width);
  for (int64_t extent : shape)
    if (__builtin_mul_overflow(size, static_cast<uint64_t>(extent), &size)) r.fail(fmt::format("shape {} is absurd", shape));
  return size;
}

template <class Extent>
Shape read_extents(Reader& r, uint32_t ndim) {
  if (ndim > static_cast<uint32_t>(Shape::kMaxAxes)) r.fail(fmt::format("an array with {} axes", ndim));
  Shape shape;
  for (uint32_t i = 0; i < ndim; ++i) {
    const auto extent = static_cast<int64_t>(r.number<Extent>("an extent"));
    if (extent < 0) r.fail(fmt::format("an extent of {}", extent));
    shape.push_back(extent);
  }
  return shape;
}

const FileDType& read_dtype(Reader& r) {
  const auto code = r.number<int32_t>("the dtype");
  const FileDType* type = io::file_dtype(code);
  if (!type) r.fail(fmt::format("dtype {} is not known", code));
  return *type;
}
void skip_device(Reader& r) {
  r.number<int32_t>("the device type");
  r.number<int32_t>("the device id");
}
Tensor read_data(Reader& r, const FileDType& type, const Shape& shape) {
  return io::tensor_from_file(type, shape, r.take(checked_bytes(r, shape, type.bytes), "the data"));
}

// row_sparse: data (rows, ...) with indices (rows); csr: data (n) with indptr (m + 1) and indices (n).
struct Moves {
  std::vector<std::pair<int64_t, int64_t>> places;  // (from, to) in units of one row or element
  int64_t unit = 1;
};
Moves checked_moves(const Reader& r, StorageType storage, const Shape& shape, const Tensor& data, const std::vector<Tensor>& aux) {
  if (shape.ndim() == 0) r.fail("a sparse array without axes");
  const std::vector<int64_t> indices = aux.back().to_vector<int64_t>();
  auto check = [&](int64_t index, int64_t end) {
    if (index < 0 || index >= end) r.fail(fmt::format("a sparse index of {} in an axis of {}", index, end));
  };
  Moves moves;
  if (storage == kRowSparse) {
    moves.unit = shape.elements(1, shape.ndim());
    int64_t needed;
    if (__builtin_mul_overflow(static_cast<int64_t>(indices.size()), moves.unit, &needed) || data.size() != needed)
      r.fail("row_sparse data and indices do not fit");
    for (size_t i = 0; i < indices.size(); ++i) {
      check(indices[i], shape[0]);
      moves.places.emplace_back(static_cast<int64_t>(i), indices[i]);
    }
  } else {
    const std::vector<int64_t> indptr = aux.front().to_vector<int64_t>();
    if (shape.ndim() != 2 || static_cast<int64_t>(indptr.size()) != shape[0] + 1) r.fail("csr indptr does not fit the shape");
    if (!std::is_sorted(indptr.begin(), indptr.end())) r.fail("csr indptr goes down");
    for (int64_t row = 0; row < shape[0]; ++row)
      for (int64_t j = indptr[row]; j < indptr[row + 1]; ++j) {
        check(j, std::min(data.size(), static_cast<int64_t>(indices.size())));
        check(indices[j], shape[1]);
        moves.places.emplace_back(j, row * shape[1] + indices[j]);
      }
  }
  return moves;
}
Tensor to_dense(const Reader& r, const Moves& moves, const Shape& shape, const Tensor& data) {
  const uint64_t size = checked_bytes(r, shape, dtype_bytes(data.dtype()));
  // Dense may be far larger than the file; a claim beyond what sparse models reach would only cost memory.
  if (size > kSparseFree + kSparseFactor * r.size()) r.fail(fmt::format("a sparse array of shape {} would take {} bytes", shape, size));
  Tensor dense = make_tensor(shape, data.dtype(), current_device());
  std::memset(bytes_of(dense), 0, size);
  const size_t step = static_cast<size_t>(moves.unit) * static_cast<size_t>(dtype_bytes(data.dtype()));
  for (const auto& [from, to] : moves.places)
    std::memcpy(bytes_of(dense) + static_cast<size_t>(to) * step, bytes_of(data) + static_cast<size_t>(from) * step, step);
  return dense;
}

// V2 and V3. A null tensor stands for an array that was never given a shape. With keep_sparse a sparse array has parts and no memory.
Tensor read_v2(Reader& r, bool numpy_shapes, bool keep_sparse, std::optional<SparseParts>& parts) {
  const auto storage = r.number<int32_t>("the storage type");
  if (storage < kDense || storage > kCsr || (numpy_shapes && storage != kDense)) r.fail(fmt::format("storage type {}", storage));
  const int aux_count = storage;  // row_sparse has one auxiliary array, csr two
  Shape storage_shape;
  if (aux_count) storage_shape = read_extents<int64_t>(r, r.number<uint32_t>("the number of axes"));
  const auto ndim = r.number<int32_t>("the number of axes");
  if (numpy_shapes ? ndim == -1 : ndim == 0) return {};
  if (ndim < 0) r.fail(fmt::format("an array with {} axes", ndim));
  const Shape shape = read_extents<int64_t>(r, static_cast<uint32_t>(ndim));
  skip_device(r);
  const FileDType& type = read_dtype(r);
  if (storage == kDense) return read_data(r, type, shape);
  std::vector<const FileDType*> aux_types;
  std::vector<Shape> aux_shapes;
  for (int i = 0; i < aux_count; ++i) {
    aux_types.push_back(&read_dtype(r));
    aux_shapes.push_back(read_extents<int64_t>(r, r.number<uint32_t>("the number of axes")));
  }
  const Tensor data = read_data(r, type, storage_shape);
  std::vector<Tensor> aux;
  for (int i = 0; i < aux_count; ++i) aux.push_back(read_data(r, *aux_types[i], aux_shapes[i]));
  parts = SparseParts{data, aux};
  const Moves moves = checked_moves(r, static_cast<StorageType>(storage), shape, data, aux);
  return keep_sparse ? make_shape_only(shape, data.dtype(), current_device()) : to_dense(r, moves, shape, data);
}

Tensor read_array(Reader& r, bool keep_sparse, std::optional<SparseParts>& parts) {
  const auto first = r.number<uint32_t>("an array");
  if (first == kV2 || first == kV3) return read_v2(r, first == kV3, keep_sparse, parts);
  const bool v1 = first == kV1;
  const Shape shape = v1 ? read_extents<int64_t>(r, r.number<uint32_t>("the number of axes")) : read_extents<uint32_t>(r, first);
  if (shape.ndim() == 0) return {};
  skip_device(r);
  const FileDType& type = read_dtype(r);
  return read_data(r, type, shape);
}

int32_t code_of(const Tensor& t) { return static_cast<int32_t>(io::file_dtype(t.dtype()).code); }

void write_shape(io::Writer& w, const Shape& shape) {
  w.number(static_cast<int32_t>(shape.ndim()));
  for (int64_t extent : shape) w.number(extent);
}
void write_data(io::Writer& w, const Tensor& t) { w.bytes({bytes_of(t), static_cast<size_t>(t.nbytes())}); }

void write_array(io::Writer& w, const Tensor& t, const SparseParts* parts) {
  // V2 cannot say "scalar": ndim 0 means "none" there. V3 can.
  w.number(t.ndim() == 0 ? kV3 : kV2);
  w.number(parts ? static_cast<int32_t>(parts->indices.size()) : int32_t{kDense});
  if (parts) write_shape(w, parts->data.shape());
  write_shape(w, t.shape());
  w.number(int32_t{1});  // cpu
  w.number(static_cast<int32_t>(t.device().id()));
  w.number(code_of(t));
  if (!parts) return write_data(w, t);
  for (const Tensor& indices : parts->indices) {
    w.number(code_of(indices));
    write_shape(w, indices.shape());
  }
  write_data(w, parts->data);
  for (const Tensor& indices : parts->indices) write_data(w, indices);
}

}  // namespace

NamedTensors read_params(std::string_view bytes, const std::string& what, SparseArrays* sparse) {
  Reader r(bytes, what);
  if (r.number<uint64_t>("the magic number") != kListMagic) r.fail("this is not a .params file: the magic number is wrong");
  r.number<uint64_t>("the reserved word");
  const auto count = r.number<uint64_t>("the number of arrays");
  if (count > r.remaining() / 4) r.fail(fmt::format("{} arrays in {} bytes", count, r.remaining()));
  NamedTensors tensors;
  for (uint64_t i = 0; i < count; ++i) {
    std::optional<SparseParts> parts;
    tensors.emplace_back("", read_array(r, sparse != nullptr, parts));
    if (parts && sparse) (*sparse)[i] = *std::move(parts);
  }
  const auto names = r.number<uint64_t>("the number of names");
  if (names != 0 && names != count) r.fail(fmt::format("{} names for {} arrays", names, count));
  for (uint64_t i = 0; i < names; ++i) tensors[i].first = r.take(r.number<uint64_t>("the length of a name"), "a name");
  return tensors;
}

std::string write_params(const NamedTensors& tensors, const SparseArrays& sparse) {
  io::Writer w;
  w.number(kListMagic);
  w.number(uint64_t{0});
  w.number(static_cast<uint64_t>(tensors.size()));
  bool named = false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    named |= !tensors[i].first.empty();
    const auto parts = sparse.find(i);
    write_array(w, tensors[i].second, parts == sparse.end() ? nullptr : &parts->second);
  }
  w.number(named ? static_cast<uint64_t>(tensors.size()) : uint64_t{0});
  if (named)
    for (const auto& [name, t] : tensors) {
      w.number(static_cast<uint64_t>(name.size()));
      w.bytes(name);
    }
  return w.take();
}

NamedTensors read_tensors(std::string_view bytes, const std::string& what, SparseArrays* sparse) {
  if (bytes.starts_with("PK")) return read_npz(bytes, what);
  if (bytes.starts_with("\x93NUMPY")) return {{"", read_npy(bytes, what)}};
  if (is_safetensors(bytes)) return read_safetensors(bytes, what);
  return read_params(bytes, what, sparse);
}

NamedTensors load_tensors(const std::string& path, SparseArrays* sparse) { return read_tensors(read_file(path), path, sparse); }

void save_tensors(const std::string& path, const NamedTensors& tensors, const SparseArrays& sparse) {
  if (path.ends_with(".npz")) return write_file(path, write_npz(tensors));
  if (path.ends_with(".safetensors")) return write_file(path, write_safetensors(tensors));
  if (path.ends_with(".npy")) {
    if (tensors.size() != 1) raise<UserError>("save_tensors: '{}' holds one tensor, {} were given; use .npz", path, tensors.size());
    return write_file(path, write_npy(tensors[0].second));
  }
  write_file(path, write_params(tensors, sparse));
}

const Tensor* find_tensor(const NamedTensors& tensors, std::string_view name) {
  for (const auto& [n, t] : tensors)
    if (n == name) return &t;
  return nullptr;
}

}  // namespace gluino
