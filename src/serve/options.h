// What the server is started with, and how the command line finds it: libgluino_serve is opened when it is needed, so that nothing else
// depends on what it needs.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gluino/block.h"
#include "gluon/block/description.h"

namespace gluino::serve {

// A network that was read, and what it takes and gives.
struct LoadedNet {
  std::unique_ptr<HybridBlock> block;
  ModelDescription description;
};

struct ModelSource {
  std::string name, version;  // version "": 1, or the numbers of the folders below
  std::string path;
};

struct ServeOptions {
  std::vector<ModelSource> models;
  std::function<LoadedNet(const std::string& path)> load;

  std::string host = "127.0.0.1";
  int port = 8080;  // 0: one that is free; -1: none
  std::string unix_socket;
  std::string certificate, key;  // of TLS
  std::string token;

  int64_t max_batch = 64;  // rows
  double max_delay = 0;    // milliseconds
  int64_t max_queue = 1024;
  double max_queue_mb = 256, max_body_mb = 64;
  int max_connections = 1024;
  double timeout = 30, read_timeout = 30, drain_timeout = 30;  // seconds
  int workers = 0, threads = 1, io_threads = 1;                // workers 0: as many as cores
  std::string length_input;
  std::vector<int64_t> length_buckets;
};

// Serves until SIGTERM or SIGINT; returns the exit code. Raises UserError and SystemError.
using ServeFunction = int (*)(const ServeOptions& options);
inline constexpr const char* kServeSymbol = "gluino_serve";

}  // namespace gluino::serve
