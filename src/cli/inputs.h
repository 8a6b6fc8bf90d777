// What a model is given: arrays and pictures from files, or random numbers of a given shape.
#pragma once
#include "cli/model.h"

namespace gluino::cli {

struct PictureOptions {
  std::vector<double> mean, std;
  std::string resize;  // "224", "320x240"
  std::string layout = "NCHW";
  int64_t crop = 0;    // 0: the whole picture
  double range = 255;  // pixels run from 0 to it
  bool bgr = false, gray = false;
};

struct InputOptions {
  std::vector<std::string> files;  // NAME=FILE, or FILE for the only input
  std::vector<std::string> shapes, dtypes;
  PictureOptions picture;
  uint64_t seed = 0;
};
void add_shape_options(Command& command, InputOptions& options);
void add_input_options(Command& command, InputOptions& options);

// NAME=NUMBERS, several times; `form` says in messages how it is written.
ShapeMap parse_shapes(const std::string& option, const std::vector<std::string>& texts, const std::string& form);
ShapeMap given_shapes(const InputOptions& options);
DTypeMap given_dtypes(const InputOptions& options);
std::vector<std::string> named_inputs(const InputOptions& options);  // by either of the two, or by a file

// The shapes that the graph's variables are known to have: parameters, and what the command line says.
ShapeMap known_shapes(const Symbol& symbol, const NamedTensors& parameters, const InputOptions& options);

// A tensor for each of the network's inputs, in its order. Random numbers where only a shape is known, if that is allowed.
Tensors make_inputs(const LoadedModel& model, const InputOptions& options, bool random_allowed);

// A picture as a batch of one, in the form that the options ask for; of one channel where it is gray.
Tensor read_picture(const std::string& path, const PictureOptions& options);

}  // namespace gluino::cli
