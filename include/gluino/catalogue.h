// What layers and losses there are. Each brings samples beside its definition; tests and documents walk over them.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gluino/block.h"
#include "gluino/op.h"

namespace gluino::catalogue {

struct BlockSample {
  std::vector<SampleInput> inputs;
  std::function<std::shared_ptr<HybridBlock>()> make;
  std::string kind() const { return make()->kind(); }
};

std::vector<BlockSample>& layers();
std::vector<BlockSample>& losses();

}  // namespace gluino::catalogue
