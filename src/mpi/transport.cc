// The functions of distributed/transport.h on MPI's non-blocking calls.
#include "distributed/transport.h"

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

namespace gluino::distributed {
namespace {

constexpr int kQuestion = 1, kAnswer = 2;  // tags

struct Pending {
  MPI_Request request = MPI_REQUEST_NULL;
  std::vector<int> counts, offsets, other_counts, other_offsets;  // MPI reads them until the request is over
};

struct World {
  Transport transport;
  MPI_Comm collectives = MPI_COMM_NULL, talk = MPI_COMM_NULL;
  std::unordered_map<Request, std::unique_ptr<Pending>> pending;
  Request next = 1;
  bool is_ours = true;     // MPI was initialized here
  std::vector<char> said;  // answers on their way
};
World& world() {
  static auto* w = new World;
  return *w;
}

// Errors end the job, with MPI's message, as its default handler does: nothing can be sent any more.
Request begin(std::unique_ptr<Pending> p) {
  const Request number = world().next++;
  world().pending.emplace(number, std::move(p));
  return number;
}
// Callers send less than 2 GiB at a time.
void to_counts(const int64_t* offsets, int size, std::vector<int>& counts, std::vector<int>& starts) {
  for (int r = 0; r < size; ++r) {
    starts.push_back(static_cast<int>(offsets[r]));
    counts.push_back(static_cast<int>(offsets[r + 1] - offsets[r]));
  }
}

Request all_max(const uint64_t* in, uint64_t* out, int count) {
  auto p = std::make_unique<Pending>();
  MPI_Iallreduce(in, out, count, MPI_UINT64_T, MPI_MAX, world().collectives, &p->request);
  return begin(std::move(p));
}
Request all_gather(const void* own, int64_t bytes, void* all) {
  auto p = std::make_unique<Pending>();
  MPI_Iallgather(own, static_cast<int>(bytes), MPI_BYTE, all, static_cast<int>(bytes), MPI_BYTE, world().collectives, &p->request);
  return begin(std::move(p));
}
Request all_gather_pieces(const void* own, Pieces all) {
  auto p = std::make_unique<Pending>();
  to_counts(all.offsets, world().transport.size, p->counts, p->offsets);
  const int rank = world().transport.rank;
  const void* given = own == all.data + all.offsets[rank] ? MPI_IN_PLACE : own;
  MPI_Iallgatherv(given, p->counts[rank], MPI_BYTE, all.data, p->counts.data(), p->offsets.data(), MPI_BYTE, world().collectives,
                  &p->request);
  return begin(std::move(p));
}
Request all_to_all(Pieces to, Pieces from) {
  auto p = std::make_unique<Pending>();
  to_counts(to.offsets, world().transport.size, p->counts, p->offsets);
  to_counts(from.offsets, world().transport.size, p->other_counts, p->other_offsets);
  p->counts[world().transport.rank] = p->other_counts[world().transport.rank] = 0;
  MPI_Ialltoallv(to.data, p->counts.data(), p->offsets.data(), MPI_BYTE, from.data, p->other_counts.data(), p->other_offsets.data(),
                 MPI_BYTE, world().collectives, &p->request);
  return begin(std::move(p));
}
Request broadcast(void* data, int64_t bytes, int root) {
  auto p = std::make_unique<Pending>();
  MPI_Ibcast(data, static_cast<int>(bytes), MPI_BYTE, root, world().collectives, &p->request);
  return begin(std::move(p));
}
bool test(Request request) {
  const auto found = world().pending.find(request);
  if (found == world().pending.end()) return true;
  int done = 0;
  MPI_Test(&found->second->request, &done, MPI_STATUS_IGNORE);
  if (done) world().pending.erase(found);
  return done != 0;
}

// Small messages leave at once, whether or not somebody waits for them.
void say(int rank, int tag, const char* text) {
  MPI_Request request;
  MPI_Isend(text, kStatusBytes, MPI_BYTE, rank, tag, world().talk, &request);
  MPI_Request_free(&request);
}
void ask() {
  world().said.assign(kStatusBytes, '\0');
  for (int r = 0; r < world().transport.size; ++r)
    if (r != world().transport.rank) say(r, kQuestion, world().said.data());
}
void serve(const char* status) {
  for (;;) {
    int is_there = 0;
    MPI_Status from;
    MPI_Iprobe(MPI_ANY_SOURCE, kQuestion, world().talk, &is_there, &from);
    if (!is_there) return;
    char text[kStatusBytes];
    MPI_Recv(text, kStatusBytes, MPI_BYTE, from.MPI_SOURCE, kQuestion, world().talk, MPI_STATUS_IGNORE);
    static char answer[kStatusBytes];
    std::snprintf(answer, sizeof answer, "%s", status);
    say(from.MPI_SOURCE, kAnswer, answer);
  }
}
bool answer(int rank, char* status) {
  int is_there = 0;
  MPI_Iprobe(rank, kAnswer, world().talk, &is_there, MPI_STATUS_IGNORE);
  if (is_there) MPI_Recv(status, kStatusBytes, MPI_BYTE, rank, kAnswer, world().talk, MPI_STATUS_IGNORE);
  return is_there != 0;
}

void finalize() {
  MPI_Comm_free(&world().collectives);
  MPI_Comm_free(&world().talk);
  if (world().is_ours) MPI_Finalize();
}
void abort(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

const Transport* open(char* error, int capacity) {
  World& w = world();
  int is_initialized = 0, provided = 0;
  MPI_Initialized(&is_initialized);
  w.is_ours = !is_initialized;  // else by the program itself, or another library of it, which may call MPI at any time
  if (is_initialized) MPI_Query_thread(&provided);
  // Where ranks are more than cores, Open MPI gives up its core whenever a test finds no news. The engine sleeps between two tests, which
  // is enough, and beside busy programs whoever sleeps comes back sooner.
  if (w.is_ours) ::setenv("OMPI_MCA_mpi_yield_when_idle", "0", 1);
  // More than our one thread needs: a program may come to use MPI beside us.
  if (w.is_ours && MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) {
    std::snprintf(error, capacity, "MPI_Init_thread failed");
    return nullptr;
  }
  if (provided < (w.is_ours ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE)) {
    std::snprintf(error, capacity, "it was initialized for one thread only; ask MPI_Init_thread for MPI_THREAD_MULTIPLE");
    return nullptr;
  }
  MPI_Comm_dup(MPI_COMM_WORLD, &w.collectives);
  MPI_Comm_dup(MPI_COMM_WORLD, &w.talk);
  Transport& t = w.transport;
  MPI_Comm_rank(w.collectives, &t.rank);
  MPI_Comm_size(w.collectives, &t.size);
  MPI_Comm local;
  MPI_Comm_split_type(w.collectives, MPI_COMM_TYPE_SHARED, t.rank, MPI_INFO_NULL, &local);
  MPI_Comm_rank(local, &t.local_rank);
  MPI_Comm_size(local, &t.local_size);
  MPI_Comm_free(&local);
  t.all_max = all_max;
  t.all_gather = all_gather;
  t.all_gather_pieces = all_gather_pieces;
  t.all_to_all = all_to_all;
  t.broadcast = broadcast;
  t.test = test;
  t.ask = ask;
  t.serve = serve;
  t.answer = answer;
  t.finalize = finalize;
  t.abort = abort;
  return &t;
}

}  // namespace
}  // namespace gluino::distributed

extern "C" __attribute__((visibility("default"))) const gluino::distributed::Transport* gluino_mpi_transport_1(char* error, int capacity) {
  return gluino::distributed::open(error, capacity);
}
