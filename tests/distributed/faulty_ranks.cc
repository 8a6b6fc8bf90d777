// A job whose last rank goes wrong: faulty_ranks HOW. Every rank prints what it was told, and how long after the fault.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "gluino/autograd.h"
#include "gluino/distributed.h"
#include "gluino/op.h"
#include "gluino/ops.h"
#include "gluino/nn.h"
#include "gluino/trainer.h"

using namespace gluino;
namespace dist = gluino::distributed;

static void go_wrong(const std::string& how) {
  if (how == "kill") std::raise(SIGKILL);
  if (how == "stop") std::raise(SIGSTOP);
  if (how == "segfault") std::raise(SIGSEGV);
  if (how == "exit") std::exit(3);
  if (how == "return") return;
  if (how == "throw") throw UserError("the last rank has had enough");
  if (how == "abort") dist::abort("the last rank has had enough");
  if (how == "shape") dist::all_reduce(zeros({3, 4}));
  if (how == "dtype") dist::all_reduce(zeros({4}, DType::float64));
  if (how == "order") dist::broadcast(zeros({4}));
  if (how == "sleep") std::this_thread::sleep_for(std::chrono::seconds(3600));
}

// Gradients that one rank rounds for the way and the others do not.
static void train(const std::string& compression) {
  nn::Dense net(1, {.in_units = 4});
  net.initialize();
  Trainer trainer(net.collect_params(), optimizer::sgd({.learning_rate = 0.1}), {.kvstore = "dist_sync", .compression = compression});
  Tensor loss;
  {
    const auto scope = autograd::record();
    loss = sum(net(ones({2, 4})));
  }
  loss.backward();
  trainer.step(2);
}

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  // Ends well, without having met anybody.
  const char* number = std::getenv("OMPI_COMM_WORLD_RANK");
  if (how == "absent" && number && std::strcmp(number, "2") == 0) return 0;
  dist::init();
  for (int i = 0; i < 5; ++i) dist::all_reduce(ones({4}));
  const bool is_faulty = dist::rank() == dist::size() - 1;
  if (is_faulty && how == "return") return 0;
  try {
    if (how == "compression") train(is_faulty ? "fp16" : "");
    if (how == "other compression") train(is_faulty ? "fp16" : "bf16");
    if (is_faulty && how != "nothing") go_wrong(how);
    for (int i = 0; i < 5; ++i) dist::all_reduce(ones({4}));
  } catch (const Error& e) {
    if (how == "throw") throw;
    std::printf("rank %d was told: %s\n", dist::rank(), e.what());
    std::fflush(stdout);
    return 1;
  }
  std::printf("rank %d is done\n", dist::rank());
  return 0;
}
