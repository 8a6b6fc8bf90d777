// Files of tensors: MXNet's .params of every era, NumPy's .npy and .npz, .safetensors.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gluino/tensor.h"

namespace gluino {

// Tensors in the order of the file; names are empty in a file without names.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// What a .params file stores of a sparse array: row_sparse has rows and (indices), csr elements and (indptr, indices).
struct SparseParts {
  Tensor data;
  Tensors indices;
};
using SparseArrays = std::map<size_t, SparseParts>;  // by place in the list

// Looks at the first bytes and reads .params (V0 to V3, dense or sparse), .npz, .npy or .safetensors. Sparse arrays become
// dense; where `sparse` takes their parts they have a shape and no memory.
NamedTensors load_tensors(const std::string& path, SparseArrays* sparse = nullptr);
// Writes .npz, .npy or .safetensors when the path ends so, else .params as MXNet 1.9 reads it, to a temporary name, and renames it.
// Tensors whose parts are given are stored as sparse in .params.
void save_tensors(const std::string& path, const NamedTensors& tensors, const SparseArrays& sparse = {});

// The same on bytes in memory; `what` names them in error messages.
NamedTensors read_tensors(std::string_view bytes, const std::string& what, SparseArrays* sparse = nullptr);
NamedTensors read_params(std::string_view bytes, const std::string& what, SparseArrays* sparse = nullptr);
NamedTensors read_npz(std::string_view bytes, const std::string& what);
Tensor read_npy(std::string_view bytes, const std::string& what);
std::string write_params(const NamedTensors& tensors, const SparseArrays& sparse = {});
std::string write_npz(const NamedTensors& tensors);
std::string write_npy(const Tensor& tensor);

// nullptr when no tensor has that name.
const Tensor* find_tensor(const NamedTensors& tensors, std::string_view name);

}  // namespace gluino
