// The cascade of three small networks that finds faces (MTCNN: Zhang et al., "Joint Face Detection and Alignment Using Multitask Cascaded
// Convolutional Networks", 2016): the first looks at windows of 12 pixels in pictures of falling size, the second and third look
// closer at what is left.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "gluino/block.h"

namespace gluino::cli {

struct Face {
  double left, top, right, bottom, score;
  std::array<std::pair<double, double>, 5> points;  // eyes, nose, corners of the mouth: x and y
};

struct CascadeOptions {
  double smallest = 20;                                // the side of the smallest face, in pixels
  double factor = 0.709;                               // from one size of the picture to the next: half the area
  std::array<double, 3> thresholds = {0.6, 0.7, 0.7};  // what a window's score must exceed in each stage
};

class FaceCascade {
 public:
  // Each gives corrections of the window and, last, how likely it is a face; the third gives the points of the face too.
  FaceCascade(std::unique_ptr<HybridBlock> first, std::unique_ptr<HybridBlock> second, std::unique_ptr<HybridBlock> third);
  // The picture is uint8 (height, width, 3), red first. The best face first.
  // `progress` is told what part of the sizes is done.
  std::vector<Face> find(const Tensor& picture, const CascadeOptions& options, const std::function<void(double)>& progress);

 private:
  std::unique_ptr<HybridBlock> first_, second_, third_;
};

}  // namespace gluino::cli
