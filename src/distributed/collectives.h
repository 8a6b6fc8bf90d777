// Collectives over plain memory, on the engine's thread: what operators, trainers and gradient buckets are made of.
#pragma once
#include "distributed/engine.h"
#include "gluino/distributed.h"
#include "gluino/dtype.h"

namespace gluino::distributed {

// Where each of `parts` equal parts of `count` elements begins; the last may be shorter or empty. parts + 1 numbers.
std::vector<int64_t> part_offsets(int64_t count, int parts);

// out = the elements of all ranks combined, in the order of the ranks. `out` may be `in`.
void all_reduce_now(Engine& engine, const char* in, char* out, int64_t count, DType dtype, Reduce how);
// The part of this rank, of part_offsets(count, size).
void reduce_scatter_now(Engine& engine, const char* in, char* out, int64_t count, DType dtype, Reduce how);
void all_gather_now(Engine& engine, const char* own, char* all, int64_t bytes);
// From every rank as many bytes as its piece has.
void all_gather_pieces_now(Engine& engine, const char* own, char* all, const std::vector<int64_t>& offsets);
void broadcast_now(Engine& engine, char* data, int64_t bytes, int root);

}  // namespace gluino::distributed
