// gluino faces: finds faces in a picture with the three networks of MTCNN.

#include "base/format.h"
#include "cli/command.h"
#include "cli/face_cascade.h"
#include "cli/model.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "gluino/image.h"

namespace gluino::cli {
namespace {

struct FacesOptions {
  std::array<std::string, 3> models;
  std::string picture, output;
  CascadeOptions cascade;
};

std::unique_ptr<HybridBlock> load_stage(const std::string& path, size_t outputs) {
  LoadedModel model = load_model({.path = path});
  if (model.inputs.size() != 1 || model.outputs.size() != outputs)
    raise<UserError>("'{}' has {} inputs and {} outputs; this stage of the cascade needs 1 and {}", path, model.inputs.size(),
                     model.outputs.size(), outputs);
  return std::move(model.net);
}

// A frame of two pixels around each face, and a dot on each of its points.
void draw_faces(Tensor& picture, const std::vector<Face>& faces) {
  const int64_t height = picture.shape()[0], width = picture.shape()[1];
  uint8_t* pixels = picture.mutable_data<uint8_t>();
  const auto paint = [&](int64_t x, int64_t y, std::array<uint8_t, 3> colour) {
    if (x >= 0 && y >= 0 && x < width && y < height) std::copy(colour.begin(), colour.end(), pixels + (y * width + x) * 3);
  };
  const auto whole = [](double v) { return static_cast<int64_t>(std::lround(v)); };
  for (const Face& f : faces) {
    for (int64_t edge = 0; edge < 2; ++edge) {
      for (int64_t x = whole(f.left); x <= whole(f.right); ++x)
        paint(x, whole(f.top) + edge, {0, 220, 0}), paint(x, whole(f.bottom) - edge, {0, 220, 0});
      for (int64_t y = whole(f.top); y <= whole(f.bottom); ++y)
        paint(whole(f.left) + edge, y, {0, 220, 0}), paint(whole(f.right) - edge, y, {0, 220, 0});
    }
    for (const auto& [x, y] : f.points)
      for (int64_t dy = -1; dy <= 1; ++dy)
        for (int64_t dx = -1; dx <= 1; ++dx) paint(whole(x) + dx, whole(y) + dy, {255, 40, 40});
  }
}

int find_faces(const FacesOptions& options, bool json) {
  FaceCascade cascade(load_stage(options.models[0], 2), load_stage(options.models[1], 2), load_stage(options.models[2], 3));
  Tensor picture = image::imread(options.picture);
  Progress progress("looking");
  const std::vector<Face> faces = cascade.find(picture, options.cascade, [&](double part) { progress.show(part); });
  progress.end();
  Json list = Json::array();
  Rows rows;
  for (const Face& f : faces) {
    list.push_back({{"box", {f.left, f.top, f.right, f.bottom}}, {"score", f.score}, {"points", f.points}});
    rows.push_back({fmt::format("{:.0f}, {:.0f}", f.left, f.top), "to", fmt::format("{:.0f}, {:.0f}", f.right, f.bottom),
                    fmt::format("score {:.4f}", f.score)});
  }
  if (!options.output.empty()) {
    draw_faces(picture, faces);
    image::imwrite(options.output, picture);
  }
  if (json)
    print_json({{"picture", options.picture}, {"faces", list}});
  else
    fmt::print("{} faces\n{}", faces.size(), table(rows, "llll"));
  return 0;
}

}  // namespace

void add_faces(Commands& commands) {
  auto options = std::make_shared<FacesOptions>();
  Command command = commands.add("faces", "Finds faces in a picture with the three networks of the MTCNN cascade.");
  command.option("FIRST", options->models[0], "the model that looks at windows of 12 pixels, det1").required();
  command.option("SECOND", options->models[1], "the one for 24 pixels, det2").required();
  command.option("THIRD", options->models[2], "the one for 48 pixels, det3").required();
  command.option("PICTURE", options->picture, "a .jpg or .png").required();
  command.option("-o,--output", options->output, "the picture with the faces framed").type("FILE");
  command.option("--smallest", options->cascade.smallest, "the side of the smallest face, in pixels").between(12.0, 10000.0).with_default();
  command.option("--thresholds", options->cascade.thresholds, "the scores that a window must exceed in each stage")
      .by_commas()
      .with_default();
  command.runs([options](bool json) { return find_faces(*options, json); });
}

}  // namespace gluino::cli
