#include "gluino/catalogue.h"

namespace gluino::catalogue {

std::vector<BlockSample>& layers() {
  static std::vector<BlockSample> all;
  return all;
}
std::vector<BlockSample>& losses() {
  static std::vector<BlockSample> all;
  return all;
}

}  // namespace gluino::catalogue
