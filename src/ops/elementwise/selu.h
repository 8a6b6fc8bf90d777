// The constants of Klambauer et al., "Self-Normalizing Neural Networks".
#pragma once

namespace gluino::ops {

inline constexpr double kSeluScale = 1.0507009873554804934193349852946, kSeluAlpha = 1.6732632423543772848170429916717;

}  // namespace gluino::ops
