// What a -symbol.json says of itself, read without knowing its operators: for files that cannot be loaded too.
#pragma once
#include <string>
#include <vector>

namespace gluino::io {

struct SymbolSummary {
  struct Node {
    std::string op;  // "null": a variable
    std::string name;
    std::string inside;  // the node in whose body it stands; empty: in the graph itself
  };
  int version = 0;          // of the MXNet that wrote it: 1.9.1 is 10901; 0: the file does not say
  std::string written_by;   // the same in words
  std::vector<Node> nodes;  // of bodies too
};

// Raises SystemError when it is no such file.
SymbolSummary summarize_symbol_json(const std::string& text, const std::string& what);

}  // namespace gluino::io
