// Images as files: JPEG and PNG to tensors of uint8 (height, width, channels) and back.
#pragma once
#include <string>
#include <string_view>

#include "gluino/tensor.h"

namespace gluino::image {

enum class Channels { gray = 0, colour = 1 };

Tensor imread(const std::string& path, Channels channels = Channels::colour);
void imwrite(const std::string& path, const Tensor& image, int quality = 95);  // by the ending: .jpg, .jpeg, .png
// The same on bytes in memory; `what` names them in error messages.
Tensor imdecode(std::string_view bytes, Channels channels = Channels::colour, const std::string& what = "image");
std::string imencode(const Tensor& image, const std::string& format = ".jpg", int quality = 95);

}  // namespace gluino::image
