// What carries bytes between ranks: the functions of libgluino_mpi, as this library calls them.
#pragma once
#include <cstdint>
#include <memory>

namespace gluino::distributed {

// Something that was begun and is not over yet; 0 is nothing.
using Request = uint64_t;

// One piece per rank, one after the other: piece r is the bytes from offsets[r] to offsets[r + 1].
struct Pieces {
  char* data;
  const int64_t* offsets;
};

inline constexpr int kStatusBytes = 256;  // a line that says where a rank is; ends with a zero

// Calls are made by one thread at a time. Memory that is given must stay until the request is over.
struct Transport {
  int rank = 0, size = 1, local_rank = 0, local_size = 1;

  Request (*all_max)(const uint64_t* in, uint64_t* out, int count);
  Request (*all_gather)(const void* own, int64_t bytes, void* all);  // as many bytes from every rank
  Request (*all_gather_pieces)(const void* own, Pieces all);         // `own` may be its place in `all`
  Request (*all_to_all)(Pieces to, Pieces from);                     // piece r to rank r; its own piece a rank keeps
  Request (*broadcast)(void* data, int64_t bytes, int root);
  bool (*test)(Request request);  // whether it is over; then the request is gone

  // Beside the collectives: a rank asks the others where they are, and they answer whenever they serve.
  void (*ask)();
  void (*serve)(const char* status);       // answers questions that have come
  bool (*answer)(int rank, char* status);  // whether that rank has answered

  void (*finalize)();
  void (*abort)(int code);
};
// Joins the world and returns its functions; null with `error` filled in where that is not possible.
using OpenTransport = const Transport* (*)(char* error, int capacity);
inline constexpr const char* kTransportSymbol = "gluino_mpi_transport_1";

// That of libgluino_mpi where this process is one of several ranks, else that of a world of one. Raises SystemError; ends the process when
// the others do not all come within so many seconds.
const Transport& open_transport(double timeout);

}  // namespace gluino::distributed
