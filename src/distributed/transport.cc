#include "distributed/transport.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/companion.h"
#include "base/env.h"
#include "base/fork.h"
#include "base/format.h"

namespace gluino::distributed {
namespace {

// How many processes the launcher says that it has started; 0 where there is none that we know.
int ranks_of_launcher() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"})
    if (const auto n = env_int(name)) return *n;
  // srun --mpi=pmix tells ranks their number only.
  if (env_text("PMIX_RANK") || env_text("PMI_RANK")) return env_int("SLURM_NTASKS").value_or(2);
  // srun without a word about MPI: every task would believe itself alone.
  if (env_text("SLURM_PROCID") && env_text("SLURM_STEP_ID")) return env_int("SLURM_NTASKS").value_or(1);
  return 0;
}

const Transport& world_of_one() {
  // Collectives of one rank never get this far.
  static const Transport alone{};
  return alone;
}

OpenTransport load_library(std::string& why) {
  // Global: MPI opens parts of itself later, which look for its symbols.
  void* library = open_companion("libgluino_mpi.so.0", true);
  if (!library) {
    why = dlerror();
    return nullptr;
  }
  return reinterpret_cast<OpenTransport>(dlsym(library, kTransportSymbol));
}

// MPI waits without end for ranks that never come: one that has ended well before it joined is no fault to mpirun. A call of MPI that has
// not returned cannot be given up, so the process ends, and with it the job.
class TimeToJoin {
 public:
  explicit TimeToJoin(double seconds)
      : thread_([this, seconds] {
          std::unique_lock lock(mutex_);
          if (changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return is_over_; })) return;
          fmt::print(stderr,
                     "gluino: the ranks have not all come within {} s; one may have ended before it joined the others. "
                     "GLUINO_DISTRIBUTED_TIMEOUT sets how long to wait; this is rank {}\n",
                     seconds, env_text("OMPI_COMM_WORLD_RANK").value_or(env_text("PMIX_RANK").value_or("?")));
          std::fflush(nullptr);
          ::_exit(1);
        }) {}
  ~TimeToJoin() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  TimeToJoin(const TimeToJoin&) = delete;
  TimeToJoin& operator=(const TimeToJoin&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace

const Transport& open_transport(double timeout) {
  const int expected = ranks_of_launcher();
  if (expected <= 1) return world_of_one();
  if (is_forked()) throw UserError("a process that was made by fork is no rank: let the process that was started join the others first");
  std::string why;
  const OpenTransport open = load_library(why);
  if (!open)
    raise<SystemError>(
        "this process was started as one of {} ranks, but these need libgluino_mpi, which was not built or cannot be loaded ({}); install "
        "libopenmpi-dev and openmpi-bin (tools/setup.sh does) and build again, or start the program alone",
        expected, why);
  std::array<char, 512> error{};
  const Transport* transport = [&] {
    const TimeToJoin limit(timeout);
    return open(error.data(), static_cast<int>(error.size()));
  }();
  if (!transport) raise<SystemError>("MPI could not be started: {}", error.data());
  if (transport->size == 1 && expected > 1)
    raise<SystemError>(
        "{} processes were started, but MPI knows of this one alone; start them with the mpirun of the MPI that the library was built with "
        "(Open MPI), under Slurm with srun --mpi=pmix",
        expected);
  return *transport;
}

}  // namespace gluino::distributed
