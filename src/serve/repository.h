// The models by name and version; they are loaded, loaded again and unloaded while requests run.
#pragma once
#include <map>
#include <shared_mutex>

#include "serve/model.h"

namespace gluino::serve {

class Repository {
 public:
  Repository(std::vector<ModelSource> sources, std::function<LoadedNet(const std::string& path)> load, LengthOptions lengths);

  void load_all();                     // raises what loading raises
  void load(const std::string& name);  // all its versions, as the files are now; on an error nothing changes
  void unload(const std::string& name);

  // version "": the latest. Raises HttpError 404, or 503 where it is not loaded.
  std::shared_ptr<ServedModel> find(const std::string& name, const std::string& version) const;

  struct Entry {
    std::string name, version, state, reason;
    std::shared_ptr<ServedModel> model;  // null: not loaded
    std::shared_ptr<ModelMetrics> metrics;
  };
  std::vector<Entry> entries() const;
  std::vector<std::string> versions(const std::string& name) const;  // that are loaded
  bool is_ready() const;                                             // every model has a version that is loaded

 private:
  // Numbers by their value, other names after them.
  struct VersionOrder {
    bool operator()(const std::string& a, const std::string& b) const;
  };
  struct Version {
    std::string path, reason;
    std::shared_ptr<ServedModel> model;
    std::shared_ptr<ModelMetrics> metrics;
  };
  using Versions = std::map<std::string, Version, VersionOrder>;
  std::vector<std::pair<std::string, std::string>> version_paths(const std::string& name) const;
  void check_known(const std::string& name) const;

  const std::vector<ModelSource> sources_;
  const std::function<LoadedNet(const std::string& path)> load_;
  const LengthOptions lengths_;
  mutable std::shared_mutex mutex_;  // guards what follows
  std::map<std::string, Versions> models_;
};

}  // namespace gluino::serve
