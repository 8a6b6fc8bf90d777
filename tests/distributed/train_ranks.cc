// A training with checkpoints that may be killed at any moment: train_ranks FOLDER EPOCHS [shard]. Every rank writes its process number to
// FOLDER/pid.RANK when it begins, rank 0 the weights to FOLDER/final.params when all is done.
#include <unistd.h>

#include <fstream>

#include "gluino/gluino.h"

using namespace gluino;

struct Net : nn::HybridBlock {
  nn::Dense hidden{32, {.activation = "relu"}}, output{10};
  nn::Dropout dropout{0.2};
  Net() { GLUINO_CHILDREN(hidden, dropout, output); }
  Tensor forward(const Tensor& x) override { return output(dropout(hidden(x))); }
};

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string folder = argv[1];
  std::ofstream(folder + "/pid." + std::to_string(distributed::rank())) << ::getpid() << "\n";
  seed(3);
  Net net;
  net.initialize(init::xavier());
  const data::DatasetPtr digits = data::digits();
  net(reshape(digits->get(0)[0], {.shape = {1, 1, 8, 8}}));
  net.hybridize();
  data::DataLoader loader(digits, 128 / distributed::size(), {.sampler = data::rank_sampler(1408, true, 5), .last_batch = "discard"});
  estimator::Estimator estimator(net, std::make_shared<loss::SoftmaxCrossEntropyLoss>(),
                                 {.optimizer = optimizer::adam({.learning_rate = 0.002}),
                                  .trainer = {.kvstore = "dist_sync", .shard_states = argc > 3 && std::string(argv[3]) == "shard"}});
  estimator.fit(loader, {.epochs = std::stoll(argv[2]), .handlers = {estimator::checkpoint(folder)}, .seed = 17});
  if (distributed::rank() == 0) net.save_parameters(folder + "/final.params");
  return 0;
}
