// Collectives of ranks that see each other's memory (SharedMemory): the same results as collectives.h, bit by bit, without messages.
#pragma once
#include "distributed/collectives.h"

namespace gluino::distributed {

void all_reduce_shared(Engine& engine, const char* in, char* out, int64_t count, DType dtype, Reduce how);
void all_gather_pieces_shared(Engine& engine, const char* own, char* all, const std::vector<int64_t>& offsets);
void broadcast_shared(Engine& engine, char* data, int64_t bytes, int root);

}  // namespace gluino::distributed
