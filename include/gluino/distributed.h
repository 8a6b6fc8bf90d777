// Training with several processes, its ranks, started by `mpirun -n 4 program` or `gluino launch -n 4 -- program`. A process that was
// started alone is the one rank of a world of one, in which everything here works and nothing is sent. docs/distributed.md is the guide.
//
// All ranks make the same collective calls in the same order, with the same shapes and dtypes. Where they do not, every rank gets a
// UserError that says which rank is where; a rank that does not come within the timeout is named in a SystemError. Nothing waits for ever.
#pragma once
#include <functional>
#include <string>

#include "gluino/tensor.h"

namespace gluino::distributed {

// Joins the world; whatever is called first does so. Raises SystemError that says what to install where the program was started as one of
// several ranks but the library was built without MPI.
void init();
bool is_initialized();
int rank();        // of this process: 0 to size() - 1
int size();        // how many ranks there are
int local_rank();  // among the ranks on this machine
int local_size();

// How long a collective waits for the other ranks: GLUINO_DISTRIBUTED_TIMEOUT seconds, 300 where that is not set.
void set_timeout(double seconds);
double timeout();

enum class Reduce { sum, mean, max, min };

// These are operators: they can be recorded, differentiated (sum and mean) and hybridized, and are never left out, merged or reordered.
// float16 and bfloat16 are added up in float32. The sum is formed in the order of the ranks, so that it has the same bits on every rank
// and in every run with as many ranks.
Tensor all_reduce(const Tensor& x, Reduce how = Reduce::sum);
Tensor all_gather(const Tensor& x);               // those of all ranks, one after the other along axis 0
Tensor reduce_scatter(const Tensor& x);           // of the sum over the ranks, this rank's part along axis 0
Tensor broadcast(const Tensor& x, int root = 0);  // that of rank `root`
Tensor reduce(const Tensor& x, int root = 0);     // the sum on rank `root`, zeros elsewhere
void barrier();                                   // until all ranks have come to it

// As all_gather, where the extents of axis 0 may differ among the ranks. Reads sizes, so it is no operator and cannot be traced.
Tensor all_gather_rows(const Tensor& x);

// What this rank does when, as a file for chrome://tracing or ui.perfetto.dev: buckets of gradients as they travel, beside what is marked.
// Files of several ranks can be joined: their clocks agree on one machine.
void start_timeline();
void mark_timeline(const std::string& what, const std::function<void()>& f);  // runs f, and shows how long it took
void write_timeline(const std::string& path);

// Waits for all ranks to end and leaves the world; done when the process ends, where it is not done before.
void finish();
// Ends all ranks now, with a message that names this one.
[[noreturn]] void abort(const std::string& why);

}  // namespace gluino::distributed
