#include "serve/repository.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/format.h"

namespace gluino::serve {
namespace fs = std::filesystem;
namespace {

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Folders with numbers for names, below one: a model's versions.
std::vector<std::pair<std::string, std::string>> numbered_folders(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path, ignored))
    if (entry.is_directory() && is_number(entry.path().filename().string()))
      found.emplace_back(entry.path().filename().string(), entry.path().string());
  return found;
}

}  // namespace

bool Repository::VersionOrder::operator()(const std::string& a, const std::string& b) const {
  const bool a_is_number = is_number(a), b_is_number = is_number(b);
  if (a_is_number != b_is_number) return b_is_number;
  if (a_is_number && a.size() != b.size()) return a.size() < b.size();
  return a < b;
}

Repository::Repository(std::vector<ModelSource> sources, std::function<LoadedNet(const std::string& path)> load, LengthOptions lengths)
    : sources_(std::move(sources)), load_(std::move(load)), lengths_(std::move(lengths)) {
  for (const ModelSource& s : sources_) models_[s.name];
}

std::vector<std::pair<std::string, std::string>> Repository::version_paths(const std::string& name) const {
  std::vector<std::pair<std::string, std::string>> all;
  for (const ModelSource& s : sources_) {
    if (s.name != name) continue;
    const auto numbered = s.version.empty() ? numbered_folders(s.path) : std::vector<std::pair<std::string, std::string>>();
    all.insert(all.end(), numbered.begin(), numbered.end());
    if (numbered.empty()) all.emplace_back(s.version.empty() ? "1" : s.version, s.path);
  }
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (all[i].first == all[k].first)
        raise<UserError>("version {} of the model '{}' is both '{}' and '{}'; give them versions: {}:1=PATH {}:2=PATH", all[i].first, name,
                         all[k].second, all[i].second, name, name);
  return all;
}

void Repository::check_known(const std::string& name) const {
  if (std::none_of(sources_.begin(), sources_.end(), [&](const ModelSource& s) { return s.name == name; }))
    throw HttpError(404, fmt::format("there is no model '{}'", name));
}

void Repository::load_all() {
  std::vector<std::string> names;
  for (const ModelSource& s : sources_)
    if (std::find(names.begin(), names.end(), s.name) == names.end()) names.push_back(s.name);
  for (const std::string& name : names) load(name);
}

void Repository::load(const std::string& name) {
  check_known(name);
  Versions loaded;
  {
    const std::shared_lock lock(mutex_);
    for (const auto& [version, v] : models_.at(name)) loaded[version].metrics = v.metrics;  // what is counted goes on
  }
  const auto paths = version_paths(name);
  for (const auto& [version, path] : paths) {
    Version& v = loaded[version];
    if (!v.metrics) v.metrics = std::make_shared<ModelMetrics>();
    v.path = path;
    v.model = std::make_shared<ServedModel>(name, version, load_(path), v.metrics, lengths_);
  }
  std::erase_if(loaded, [](const auto& v) { return !v.second.model; });
  const std::unique_lock lock(mutex_);
  models_[name].swap(loaded);
}

void Repository::unload(const std::string& name) {
  check_known(name);
  std::vector<std::shared_ptr<ServedModel>> freed;  // when the lock is not held
  const std::unique_lock lock(mutex_);
  for (auto& [version, v] : models_.at(name)) {
    freed.push_back(std::move(v.model));
    v.model = nullptr;
    v.reason = "unloaded";
  }
}

std::shared_ptr<ServedModel> Repository::find(const std::string& name, const std::string& version) const {
  const std::shared_lock lock(mutex_);
  const auto model = models_.find(name);
  if (model == models_.end()) throw HttpError(404, fmt::format("there is no model '{}'", name));
  if (!version.empty() && !model->second.contains(version))
    throw HttpError(404, fmt::format("the model '{}' has no version '{}'", name, version));
  for (auto v = model->second.rbegin(); v != model->second.rend(); ++v)
    if (v->second.model && (version.empty() || v->first == version)) return v->second.model;
  throw HttpError(503, fmt::format("the model '{}' is not loaded", name));
}

std::vector<Repository::Entry> Repository::entries() const {
  const std::shared_lock lock(mutex_);
  std::vector<Entry> all;
  for (const auto& [name, versions] : models_)
    for (const auto& [version, v] : versions)
      all.push_back({name, version, v.model ? "READY" : "UNAVAILABLE", v.reason, v.model, v.metrics});
  return all;
}

std::vector<std::string> Repository::versions(const std::string& name) const {
  const std::shared_lock lock(mutex_);
  std::vector<std::string> all;
  if (const auto model = models_.find(name); model != models_.end())
    for (const auto& [version, v] : model->second)
      if (v.model) all.push_back(version);
  return all;
}

bool Repository::is_ready() const {
  const std::shared_lock lock(mutex_);
  return std::all_of(models_.begin(), models_.end(), [](const auto& m) {
    return std::any_of(m.second.begin(), m.second.end(), [](const auto& v) { return v.second.model != nullptr; });
  });
}

}  // namespace gluino::serve
