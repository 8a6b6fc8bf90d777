// What is made by its name, with options by their names: optimizers, losses, initialisers and metrics. Other languages make theirs so.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "gluino/attrs.h"

namespace gluino {

// {{"learning_rate", 0.001}, {"centered", true}}
using NamedOptions = std::vector<std::pair<std::string, AttrValue>>;

struct Option {
  std::string name, doc, default_text;
  std::vector<std::string> choices;  // of a text; empty: any
};

}  // namespace gluino
