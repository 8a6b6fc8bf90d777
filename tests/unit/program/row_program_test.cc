#include "kernels/rows/row_kernel.h"

#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

Tensors fused_rows(const std::string& program, const Tensors& in, int64_t axes = 1) {
  const OpDef& op = OpRegistry::global().get("_fused_rows");
  const std::pair<std::string_view, AttrValue> attrs[] = {{"program", program}, {"axes", axes}};
  return apply(op, in, op.make_attrs(attrs));
}

// Rows shorter and longer than what is taken at once, and few long ones, whose reductions are split.
TEST(RowProgram, HasTheBitsOfTheOperators) {
  for (const DType dtype : {DType::float32, DType::float64})
    for (const Shape& shape : {Shape{300, 3}, Shape{33, 517}, Shape{7, 5000}, Shape{2, 100000}, Shape{1, 40}}) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + shape.str());
      const std::string type = dtype == DType::float64 ? "f64" : "f32";
      const Tensor x = random_tensor(shape, dtype, 1), b = random_tensor({shape[1]}, dtype, 2), c = random_tensor({shape[0], 1}, dtype, 3);
      const Tensor sum = broadcast_add(x, b);
      const Tensors soft = fused_rows(type + "; map(0,1) " + type + " x0 x1 add(0,1); softmax(2) 2; log_softmax(2) 1; -> 4,3", {x, b});
      EXPECT_TRUE(same_bits(soft[0], log_softmax(sum)));
      EXPECT_TRUE(same_bits(soft[1], softmax(sum, {.temperature = 0.5})));
      const Tensors grads = fused_rows(type + "; softmax_grad(1,0) 2; log_softmax_grad(0,2) 3; -> 3,2", {x, sum});
      EXPECT_TRUE(same_bits(grads[1], call("_softmax_grad", {sum, x}, {{"temperature", 0.5}})));
      EXPECT_TRUE(same_bits(grads[0], call("_log_softmax_grad", {x, grads[1]}, {{"temperature", 1.0 / 3}})));
      const Tensors norm = fused_rows(type + "; layer_norm(0,1,1) 0.001; map(2,4) " + type + " x0 x1 multiply(0,1); -> 5,3", {x, b});
      const Tensors layer = call_all("LayerNorm", Tensors{x, b, b}, {{"eps", 0.001}});
      EXPECT_TRUE(same_bits(norm[0], broadcast_mul(layer[0], layer[2])));
      EXPECT_TRUE(same_bits(norm[1], layer[1]));
      const Tensor mean_of = layer[1], std_of = layer[2];
      const Tensors norm_grads =
          fused_rows(type + "; layer_norm_grad(0,1,2,3,4) 0; map(5,0) " + type + " x0 x1 add(0,1); -> 8,7,6", {x, sum, b, mean_of, std_of});
      const Tensors layer_grads = call_all("_layer_norm_grad", Tensors{x, sum, b, mean_of, std_of});
      EXPECT_TRUE(same_bits(norm_grads[0], layer_grads[0] + x));
      EXPECT_TRUE(same_bits(norm_grads[1], layer_grads[2]));
      EXPECT_TRUE(same_bits(norm_grads[2], layer_grads[1]));
      // Indices of several dtypes, out of range on both sides.
      for (const DType index_dtype : {DType::int32, DType::int64, DType::float64, DType::float16}) {
        const Tensor index = random_tensor({shape[0]}, DType::float32, 4, -2, static_cast<double>(shape[1] + 2)).astype(index_dtype);
        const Tensors picked = fused_rows(type + "; pick(0,1) 0; pick_grad(2,1) 0; -> 3,2", {x, index});
        EXPECT_TRUE(same_bits(picked[1], pick(x, index, {.keepdims = true, .mode = "clip"})));
        EXPECT_TRUE(same_bits(picked[0], call("_pick_backward", {picked[1], index, x}, {{"keepdims", true}})));
      }
      const Tensors mean = fused_rows(type + "; map(0,1) " + type + " x0 x1 multiply(0,1); sum(2) divide; map(3,1) " + type +
                                          " x0 x1 add(0,1) -> 2,1; max(0) none; -> 3,4,6",
                                      {x, c});
      EXPECT_TRUE(same_bits(mean[0], broadcast_mul(x, c).mean(Shape{1}, true)));
      EXPECT_TRUE(same_bits(mean[1], mean[0] + c));
      EXPECT_TRUE(same_bits(mean[2], x.max(Shape{1}, true)));
    }
}

TEST(RowProgram, RefusesWhatDoesNotFit) {
  const Tensor x = ones({3, 4}), column = ones({3, 1});
  for (const char* text : {"", "f32", "f32; -> 1", "f32; softmax(0) 1", "f32; softmax(0) 1; -> ", "f32; softmax(0) 1; -> 1; -> 1",
                           "f32; map(0) f64 x0; -> 1", "i32; softmax(0) 1; -> 1", "f32; sum(0) halve; -> 1", "f32; reduce(0) 1; -> 1",
                           "f32; softmax(0,0) 1; -> 1", "f32; sum(0) none float17; -> 1", "f64; sum(0) none float16; -> 1",
                           "f32; map(0) f32 x1; -> 1", "f32; nothing(0) 1; -> 1", "f32; softmax 1; -> 1"})
    EXPECT_THROW(fused_rows(text, {x}), AttrError) << text;
  EXPECT_THROW(fused_rows("f32; softmax(5) 1; -> 1", {x}), AttrError);
  EXPECT_THROW(fused_rows("f32; softmax(0) 1; -> 7", {x}), AttrError);
  EXPECT_THROW(fused_rows("f32; sum(0) none; softmax(1) 1; -> 2", {x}), AttrError);
  GLUINO_EXPECT_ERROR(ShapeError, "is not made of rows", fused_rows("f32; softmax(1) 1; -> 2", {x, column}));
  EXPECT_THROW(fused_rows("f32; pick(0,0) 0; -> 1", {x}), ShapeError);
  GLUINO_EXPECT_ERROR(ShapeError, "one number for each of 3 rows", fused_rows("f32; pick(0,1) 0; -> 2", {x, ones({4})}));
  GLUINO_EXPECT_ERROR(ShapeError, "does not broadcast", fused_rows("f32; pick(0,1) 0; map(0,1) f32 x0 x1 add(0,1); -> 3", {x, ones({3})}));
  GLUINO_EXPECT_ERROR(AttrError, "is a row", fused_rows("f32; softmax(0) 1; pick_grad(2,1) 0; -> 3", {x, column}));
  GLUINO_EXPECT_ERROR(AttrError, "before all rows are done",
                      fused_rows("f32; layer_norm_grad(0,0,1,2,2) 0; softmax(4) 1; -> 6", {x, ones({4}), column}));
  GLUINO_EXPECT_ERROR(ShapeError, "no row of 3 axes", fused_rows("f32; softmax(0) 1; -> 1", {x}, 3));
  GLUINO_EXPECT_ERROR(ShapeError, "are empty", fused_rows("f32; sum(0) none; -> 1", {ones({3, 0})}));
  GLUINO_EXPECT_ERROR(DTypeError, "not of the type", fused_rows("f32; softmax(0) 1; -> 1", {x.astype(DType::float64)}));
}

TEST(RowProgram, SumsOverNoRowsAreZero) {
  const Tensor x = ones({0, 4}), gamma = ones({4}), column = ones({0, 1});
  const Tensors grads = fused_rows("f32; layer_norm_grad(0,0,1,2,2) 0; -> 3,4", {x, gamma, column});
  EXPECT_TRUE(same_bits(grads[1], zeros({4})));
}

}  // namespace
}  // namespace gluino::test
