// Between the plain layout of activations (batch, channels, height, width) and the blocked one
// (batch, channels / 8, height, width, 8), whose last block is padded with zeros. Rows (batch, channels, width) are images of height 1.
#include "kernels/convolution/blocked_layout.h"
#include "ops/nets.h"

namespace gluino::ops {
namespace {

GLUINO_OP(_to_blocked, NoAttrs) {
  op.doc("Rearranges images into blocks of 8 channels.")
      .input("data")
      .shape([](const NoAttrs&, std::span<const Shape> in) {
        if (in[0].ndim() != 3 && in[0].ndim() != 4) raise<ShapeError>("data has shape {}, but 3 or 4 axes are needed", in[0]);
        return Shape{in[0][0], kernels::blocks_of(in[0][1]), in[0].ndim() == 3 ? 1 : in[0][2], in[0][in[0].ndim() - 1],
                     kernels::kChannelBlock};
      })
      .kernel([](const NoAttrs&, KernelContext& k) {
        const Shape &s = k.in(0).shape(), &blocked = k.out().shape();
        kernels::to_blocked(s[0], s[1], blocked[2] * blocked[3], k.data<float>(0), k.out_data<float>());
      })
      .kernel_dtypes({DType::float32})
      .not_differentiable("compiled programs for prediction use it")
      .sample({{2, 11, 3, 2}})
      .sample({{2, 3, 5}});
}

struct FromBlockedAttrs {
  int64_t channels = 0;
  bool rows = false;
  static void fields(AttrFields<FromBlockedAttrs>& f) {
    f.required("channels", &FromBlockedAttrs::channels, "how many channels there are")
        .field("rows", &FromBlockedAttrs::rows, "whether the images, whose height is 1, become rows");
  }
};
GLUINO_OP(_from_blocked, FromBlockedAttrs) {
  op.doc("Rearranges blocks of 8 channels into images.")
      .input("data")
      .shape([](const FromBlockedAttrs& a, std::span<const Shape> in) {
        if (in[0].ndim() != 5 || in[0][1] != kernels::blocks_of(a.channels) || in[0][4] != kernels::kChannelBlock)
          raise<ShapeError>("data of shape {} does not hold {} channels in blocks of {}", in[0], a.channels, kernels::kChannelBlock);
        if (a.rows && in[0][2] != 1) raise<ShapeError>("data of shape {} holds images of height {}, not rows", in[0], in[0][2]);
        return a.rows ? Shape{in[0][0], a.channels, in[0][3]} : Shape{in[0][0], a.channels, in[0][2], in[0][3]};
      })
      .kernel([](const FromBlockedAttrs& a, KernelContext& k) {
        const Shape& s = k.in(0).shape();
        kernels::from_blocked(s[0], a.channels, s[2] * s[3], k.data<float>(0), k.out_data<float>());
      })
      .kernel_dtypes({DType::float32})
      .not_differentiable("compiled programs for prediction use it")
      .sample({{2, 2, 3, 2, 8}}, {.channels = 11})
      .sample({{2, 1, 1, 5, 8}}, {.channels = 3, .rows = true});
}

}  // namespace
}  // namespace gluino::ops
