// gluino serve: models over HTTP. The server is a library of its own, which is opened here.
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/companion.h"
#include "base/env.h"
#include "base/file.h"
#include "base/format.h"
#include "cli/command.h"
#include "cli/model.h"
#include "onnx/description.h"
#include "serve/options.h"

namespace gluino::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  serve::ServeOptions serve;
  std::vector<std::string> models;
  std::string token_file;
  std::vector<double> length_buckets;
  bool no_port = false;
};

serve::ServeFunction serve_function() {
  constexpr const char* kFile = "libgluino_serve.so.0";
  void* library = open_companion(kFile);
  void* found = library ? dlsym(library, serve::kServeSymbol) : nullptr;
  if (!found) raise<SystemError>("the server's library {} was not built, or cannot be loaded: {}", kFile, dlerror());
  return reinterpret_cast<serve::ServeFunction>(found);
}

// What a model is called when the command line does not say: the last part of its path without what export and save put behind it.
std::string name_of(const std::string& path) {
  std::string name = fs::path(path).lexically_normal().filename().string();
  if (name.empty()) name = fs::path(path).lexically_normal().parent_path().filename().string();
  for (const std::string_view ending : {"-symbol.json", ".gluino", ".params", ".onnx"})
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  return name;
}

// [NAME[:VERSION]=]PATH
serve::ModelSource parse_model(const std::string& text) {
  const size_t equals = text.find('=');
  serve::ModelSource source;
  source.path = equals == text.npos ? text : text.substr(equals + 1);
  const std::string label = equals == text.npos ? name_of(source.path) : text.substr(0, equals);
  const size_t colon = equals == text.npos ? label.npos : label.rfind(':');
  source.name = label.substr(0, colon);
  if (colon != label.npos) source.version = label.substr(colon + 1);
  if (source.name.empty() || source.path.empty() || (colon != label.npos && source.version.empty()) || source.name.find('/') != label.npos)
    raise<UsageError>("'{}' does not name a model; write PATH, NAME=PATH or NAME:VERSION=PATH", text);
  return source;
}

serve::LoadedNet load(const std::string& path) {
  LoadedModel model = load_model({.path = path});
  if (model.files.onnx) return {std::move(model.net), onnx::describe(*model.files.onnx)};
  ShapeMap shapes;
  DTypeMap types;
  for (const auto& [name, p] : model.net->own_parameters())
    if (p->is_initialized()) {
      shapes[name] = p->shape();
      types[name] = p->dtype();
    }
  ModelDescription description = describe_model(*model.symbol, model.inputs, shapes, types);
  return {std::move(model.net), std::move(description)};
}

int serve_models(Options& options) {
  serve::ServeOptions& o = options.serve;
  for (const std::string& text : options.models) o.models.push_back(parse_model(text));
  o.load = load;
  for (const double length : options.length_buckets) {
    if (!(length >= 1 && length <= 1e9) || length != std::floor(length)) raise<UsageError>("--length-buckets: {} is not a length", length);
    o.length_buckets.push_back(static_cast<int64_t>(length));
  }
  std::sort(o.length_buckets.begin(), o.length_buckets.end());
  if (!o.length_buckets.empty() && o.length_input.empty()) raise<UsageError>("--length-buckets needs --length-input");
  if (options.no_port) o.port = -1;
  if (o.port < 0 && o.unix_socket.empty()) raise<UsageError>("--no-port needs --unix-socket: there must be a way in");
  if (o.certificate.empty() != o.key.empty()) raise<UsageError>("--tls-certificate and --tls-key are given together, or neither");
  if (!options.token_file.empty()) {
    o.token = read_file(options.token_file);
    while (!o.token.empty() && (o.token.back() == '\n' || o.token.back() == '\r' || o.token.back() == ' ')) o.token.pop_back();
    if (o.token.empty()) raise<UsageError>("--token-file {}: the file is empty", options.token_file);
  } else if (const auto token = env_text("GLUINO_SERVE_TOKEN")) {
    o.token = *token;
  }
  return serve_function()(o);
}

}  // namespace

void add_serve(Commands& commands) {
  auto options = std::make_shared<Options>();
  serve::ServeOptions& o = options->serve;
  Command command = commands.add("serve", "Serves models over HTTP: the Open Inference Protocol.");
  command
      .option("MODEL", options->models,
              "an exported model, or a folder of numbered versions; NAME=PATH or NAME:VERSION=PATH gives it a name")
      .required()
      .several();
  command.option("--host", o.host, "the address to listen on").with_default();
  command.option("--port", o.port, "the port to listen on; 0: any that is free").between(0, 65535).with_default();
  command.flag("--no-port", options->no_port, "listen on --unix-socket alone");
  command.option("--unix-socket", o.unix_socket, "a socket to listen on, for its owner; without TLS").type("FILE");
  command.option("--tls-certificate", o.certificate, "speak TLS with this certificate (PEM)").type("FILE");
  command.option("--tls-key", o.key, "its private key (PEM)").type("FILE");
  command.option("--token-file", options->token_file, "clients must send the bearer token in this file (else that in GLUINO_SERVE_TOKEN)")
      .type("FILE");
  command.option("--max-batch", o.max_batch, "rows that requests are joined to; 1: each runs alone").positive().with_default();
  command.option("--max-delay", o.max_delay, "milliseconds that a request may wait for others").between(0, 60000).with_default();
  command.option("--length-input", o.length_input,
                 "an input that says how many steps of the second axis count (valid_length): sequences of different lengths are joined");
  command.option("--length-buckets", options->length_buckets, "lengths that these are filled up to; powers of two when left out")
      .by_commas();
  command.option("--max-queue", o.max_queue, "requests that may wait; more get 429").positive().with_default();
  command.option("--max-queue-mb", o.max_queue_mb, "megabytes of requests in memory; more get 429").positive().with_default();
  command.option("--max-body-mb", o.max_body_mb, "megabytes of one request; larger ones get 413").positive().with_default();
  command.option("--max-connections", o.max_connections, "connections at a time; more get 503").positive().with_default();
  command.option("--timeout", o.timeout, "seconds until an answer; then 504").positive().with_default();
  command.option("--read-timeout", o.read_timeout, "seconds in which a request must come; then 408").positive().with_default();
  command.option("--drain-timeout", o.drain_timeout, "seconds for what is under way when SIGTERM comes").positive().with_default();
  command.option("--workers", o.workers, "calls of models at a time; as many as cores when left out").positive();
  command.option("--threads", o.threads, "threads of one call").positive().with_default();
  command.option("--io-threads", o.io_threads, "threads that read and write").positive().with_default();
  command.runs_without_json([options] { return serve_models(*options); });
}

}  // namespace gluino::cli
