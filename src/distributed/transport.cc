#include "distributed/transport.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>

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

}  // namespace

const Transport& open_transport() {
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
  const Transport* transport = open(error.data(), static_cast<int>(error.size()));
  if (!transport) raise<SystemError>("MPI could not be started: {}", error.data());
  if (transport->size == 1 && expected > 1)
    raise<SystemError>(
        "{} processes were started, but MPI knows of this one alone; start them with the mpirun of the MPI that the library was built with "
        "(Open MPI), under Slurm with srun --mpi=pmix",
        expected);
  return *transport;
}

}  // namespace gluino::distributed
