#include "cli/inputs.h"

#include "cli/command.h"
#include "base/format.h"
#include "gluino/gluino.h"
#include "graph/graph.h"
#include "onnx/description.h"

namespace gluino::cli {
namespace {

std::pair<std::string, std::string> split_at_equals(const std::string& text) {
  const size_t at = text.find('=');
  return at == std::string::npos ? std::pair(std::string(), text) : std::pair(text.substr(0, at), text.substr(at + 1));
}

bool is_picture(std::string path) {
  std::transform(path.begin(), path.end(), path.begin(), [](unsigned char c) { return std::tolower(c); });
  return path.ends_with(".jpg") || path.ends_with(".jpeg") || path.ends_with(".png");
}

// "224" or "320x240": width and height.
Shape parse_size(const std::string& text) {
  int64_t width = 0, height = 0;
  char x = 0, rest = 0;
  const int parts = std::sscanf(text.c_str(), "%ld%c%ld%c", &width, &x, &height, &rest);
  if (parts == 1) height = width;
  if ((parts != 1 && !(parts == 3 && x == 'x')) || width < 1 || height < 1 || width > 1 << 16 || height > 1 << 16)
    raise<UsageError>("--resize {}: a size is given as 224 or as WIDTHxHEIGHT", text);
  return {width, height};
}

Tensor per_channel(const std::vector<double>& values, int64_t channels, const char* option) {
  if (values.size() != 1 && static_cast<int64_t>(values.size()) != channels)
    raise<UsageError>("{} has {} numbers, but the picture has {} channels; give one for each, or one for all", option, values.size(),
                      channels);
  return from_vector(std::vector<float>(values.begin(), values.end()), Shape{1, 1, static_cast<int64_t>(values.size())});
}

[[noreturn]] void fail_unknown(const std::string& option, const std::string& name, const std::vector<std::string>& inputs) {
  raise<UsageError>("{}: the model has no input '{}'{}; its inputs are: {}", option, name, did_you_mean(name, inputs),
                    fmt::join(inputs, ", "));
}

bool is_in(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

class InputReader {
 public:
  InputReader(const LoadedModel& model, const InputOptions& options)
      : options_(options), names_(model.inputs), types_(given_dtypes(options)) {
    const std::vector<std::string> variables = model.symbol ? model.symbol->list_inputs() : model.inputs;
    for (const auto& [name, shape] : given_shapes(options))
      if (!is_in(variables, name)) fail_unknown("--shape", name, names_);
    for (const auto& [name, type] : types_)
      if (!is_in(variables, name)) fail_unknown("--dtype", name, names_);
    if (!model.symbol) {
      take_declared(*model.files.onnx);
      return;
    }
    Graph graph = model.symbol->graph();
    infer_graph_shapes(graph, known_shapes(*model.symbol, model.files.parameters, options));
    for (const auto& node : graph.nodes)
      if (node.is_variable() && node.outputs[0].shape) inferred_[node.name] = *node.outputs[0].shape;
  }

  Tensors read(bool random_allowed) {
    for (const std::string& text : options_.files) read_option(text);
    Tensors tensors;
    for (const std::string& name : names_) {
      if (!found_.contains(name)) found_[name] = random_allowed ? drawn(name) : missing(name);
      Tensor t = found_[name];
      if (const auto it = types_.find(name); it != types_.end()) t = t.astype(it->second);
      tensors.push_back(std::move(t));
    }
    return tensors;
  }

 private:
  // What an ONNX file says of its inputs; the command line says more.
  void take_declared(const onnx::Program& program) {
    const ShapeMap given = given_shapes(options_);
    for (const ValueDescription& v : onnx::describe(program).inputs) {
      if (v.shape) inferred_[v.name] = *v.shape;
      if (const auto it = given.find(v.name); it != given.end()) inferred_[v.name] = it->second;
      if (v.dtype && *v.dtype != DType::float32) drawn_types_[v.name] = *v.dtype;
    }
  }
  void read_option(const std::string& text) {
    auto [name, path] = split_at_equals(text);
    if (!name.empty() && !is_in(names_, name)) fail_unknown("--input " + text, name, names_);
    if (is_picture(path)) {
      name = name.empty() ? only_input(text) : name;
      found_[name] = read_picture(path, options_.picture);
      return;
    }
    const NamedTensors arrays = load_tensors(path);
    if (name.empty() && arrays.size() != 1) {
      take_all(arrays, path);
      return;
    }
    name = name.empty() ? only_input(text) : name;
    const Tensor* t = arrays.size() == 1 ? &arrays[0].second : nullptr;
    for (const std::string& key : {name, "in:" + name})
      if (const Tensor* same = find_tensor(arrays, key)) t = same;
    if (!t) raise<SystemError>("'{}' holds {} arrays, and none is called '{}'", path, arrays.size(), name);
    found_[name] = *t;
  }
  // A file with an array per input, called as the input, or as MXNet's recorded examples have it: in:NAME beside out0, out1, ...
  void take_all(const NamedTensors& arrays, const std::string& path) {
    bool any = false;
    for (const std::string& name : names_)
      for (const std::string& key : {"in:" + name, name})
        if (const Tensor* t = find_tensor(arrays, key)) found_[name] = *t, any = true;
    if (!any) raise<SystemError>("none of the arrays in '{}' is called as an input of the model: {}", path, fmt::join(names_, ", "));
  }
  std::string only_input(const std::string& text) const {
    if (names_.size() != 1)
      raise<UsageError>("--input {}: the model has {} inputs; say for which it is, as NAME={}: {}", text, names_.size(), text,
                        fmt::join(names_, ", "));
    return names_[0];
  }
  Tensor drawn(const std::string& name) const {
    const auto it = inferred_.find(name);
    if (it == inferred_.end() || !it->second.is_known())
      raise<UsageError>("the shape of input '{}' is not known{}; give it with --shape {}=1,3,224,224", name,
                        it == inferred_.end() ? "" : fmt::format(", only {}", it->second), name);
    if (const auto type = drawn_types_.find(name); type != drawn_types_.end())
      return is_floating(type->second) ? random::normal(0, 1, it->second).astype(type->second)
                                       : floor(random::uniform(0, 2, it->second)).astype(type->second);
    return random::normal(0, 1, it->second);
  }
  Tensor missing(const std::string& name) const { raise<UsageError>("input '{}' is not given; give it with --input {}=FILE", name, name); }

  const InputOptions& options_;
  std::vector<std::string> names_;
  DTypeMap types_, drawn_types_;
  std::map<std::string, Shape> inferred_;
  TensorMap found_;
};

}  // namespace

void add_shape_options(Command& command, InputOptions& options) {
  command.option("--shape", options.shapes, "the shape of an input, as data=1,3,224,224; may be given several times").type("NAME=SHAPE");
  command.option("--dtype", options.dtypes, "the type of an input, as data=int32; may be given several times").type("NAME=TYPE");
}

void add_input_options(Command& command, InputOptions& options) {
  command
      .option("-i,--input", options.files,
              "what an input is given: .npy, .npz, .params, .jpg or .png; may be given several times. The name may be left out for "
              "the only input, and for an .npz with an array per input")
      .type("NAME=FILE");
  PictureOptions& p = options.picture;
  command.option("--resize", p.resize, "pictures are made this large first: 224, or WIDTHxHEIGHT").type("SIZE");
  command.option("--crop", p.crop, "then the middle of this size is taken").type("SIZE");
  command.option("--range", p.range, "pixels run from 0 to this: 255, or 1 for networks of Gluon's ToTensor").with_default();
  command.option("--mean", p.mean, "is subtracted from the pixels: a number, or one per channel as 123.68,116.78,103.94")
      .by_commas()
      .type("NUMBERS");
  command.option("--std", p.std, "divides the pixels then").by_commas().type("NUMBERS");
  command.flag("--bgr", p.bgr, "channels in the order blue, green, red");
  command.flag("--gray", p.gray, "one channel");
  command.option("--layout", p.layout, "of pictures").choices({"NCHW", "NHWC"}).with_default();
}

ShapeMap parse_shapes(const std::string& option, const std::vector<std::string>& texts, const std::string& form) {
  ShapeMap shapes;
  for (const std::string& text : texts) {
    const auto [name, extents] = split_at_equals(text);
    try {
      if (name.empty()) raise<UsageError>("");
      std::string inside = extents;
      if (inside.starts_with("(") && inside.ends_with(")")) inside = inside.substr(1, inside.size() - 2);
      shapes[name] = AttrType<Shape>::parse(option, fmt::format("({})", inside));
      for (int64_t extent : shapes[name])
        if (extent < 0) raise<UsageError>("");
    } catch (const UserError&) {
      raise<UsageError>("{} {}: {}", option, text, form);
    }
  }
  return shapes;
}

ShapeMap given_shapes(const InputOptions& options) {
  return parse_shapes("--shape", options.shapes, "a shape is given as name=1,3,224,224");
}

DTypeMap given_dtypes(const InputOptions& options) {
  DTypeMap types;
  for (const std::string& text : options.dtypes) {
    const auto [name, type] = split_at_equals(text);
    const auto found = find_dtype(type);
    if (name.empty() || !found) raise<UsageError>("--dtype {}: a type is given as name=int32", text);
    types[name] = *found;
  }
  return types;
}

std::vector<std::string> named_inputs(const InputOptions& options) {
  std::vector<std::string> names;
  for (const auto* list : {&options.files, &options.shapes, &options.dtypes})
    for (const std::string& text : *list)
      if (const std::string name = split_at_equals(text).first; !name.empty()) names.push_back(name);
  return names;
}

ShapeMap known_shapes(const Symbol& symbol, const NamedTensors& parameters, const InputOptions& options) {
  ShapeMap shapes;
  const std::vector<std::string> variables = symbol.list_inputs();
  for (const auto& [name, t] : parameters)
    if (is_in(variables, bare_name(name))) shapes[bare_name(name)] = t.shape();
  for (const auto& [name, shape] : given_shapes(options)) shapes[name] = shape;
  return shapes;
}

Tensors make_inputs(const LoadedModel& model, const InputOptions& options, bool random_allowed) {
  seed(options.seed);
  return InputReader(model, options).read(random_allowed);
}

Tensor read_picture(const std::string& path, const PictureOptions& options) {
  Tensor picture = image::imread(path, options.gray ? image::Channels::gray : image::Channels::colour);
  if (!options.resize.empty()) picture = vision::Resize(parse_size(options.resize), false)(picture);
  if (options.crop < 0) raise<UsageError>("--crop {}: a size is positive", options.crop);
  if (options.crop > 0) picture = vision::CenterCrop({options.crop, options.crop})(picture);
  Tensor x = picture.astype(DType::float32);
  if (options.range != 255) x = x * (options.range / 255);
  const int64_t depth = x.shape()[2];
  if (options.bgr) x = reverse(x, {.axis = Shape{2}});
  if (!options.mean.empty()) x = x - per_channel(options.mean, depth, "--mean");
  if (!options.std.empty()) x = x / per_channel(options.std, depth, "--std");
  if (options.layout == "NCHW") x = x.transpose({2, 0, 1});
  Shape batched = x.shape();
  batched.insert(0, 1);
  return x.reshape(batched);
}

}  // namespace gluino::cli
