// One test per kind of user error: the type, and a message that names the operator, what was found and what is needed.
#include "gluino/error.h"

#include "gluino/autograd.h"
#include "gluino/device.h"
#include "gluino/symbol.h"
#include "support/support.h"

namespace gluino::test {
namespace {

// The whole message must be `text`.
#define EXPECT_MESSAGE(Type, text, expression)                    \
  try {                                                           \
    expression;                                                   \
    ADD_FAILURE() << "no " #Type " was raised";                   \
  } catch (const Type& e) {                                       \
    EXPECT_STREQ(e.what(), text);                                 \
  } catch (const std::exception& e) {                             \
    ADD_FAILURE() << "another type than " #Type ": " << e.what(); \
  }

TEST(Error, TypesFormATree) {
  EXPECT_TRUE((std::is_base_of_v<UserError, ShapeError> && std::is_base_of_v<UserError, DTypeError>));
  EXPECT_TRUE((std::is_base_of_v<UserError, AttrError> && std::is_base_of_v<UserError, IndexError>));
  EXPECT_TRUE((std::is_base_of_v<Error, SystemError> && !std::is_base_of_v<UserError, SystemError>));
  EXPECT_TRUE((std::is_base_of_v<Error, InternalError> && std::is_base_of_v<std::runtime_error, Error>));
  EXPECT_STREQ(InternalError("x").what(), "this is a bug in gluino: x");
}

TEST(Error, UnknownOperator) {
  EXPECT_MESSAGE(UserError, "no operator is named 'sigmodi'; did you mean 'sigmoid'?", call("sigmodi", {zeros({1})}));
}

TEST(Error, UnknownAttribute) {
  EXPECT_MESSAGE(AttrError, "sum: there is no attribute 'axsi'; known are: axis, keepdims, exclude",
                 call("sum", {zeros({1})}, {{"axsi", int64_t{0}}}));
}

TEST(Error, AttributeValueThatCannotBeRead) {
  GLUINO_EXPECT_ERROR(AttrError, "num_hidden", OpRegistry::global().get("FullyConnected").parse_attrs({{"num_hidden", "many"}}));
  GLUINO_EXPECT_ERROR(AttrError, "act_type", OpRegistry::global().get("Activation").parse_attrs({{"act_type", "rleu"}}));
}

TEST(Error, MissingRequiredAttribute) { GLUINO_EXPECT_ERROR(AttrError, "num_hidden", sym::apply("FullyConnected", {sym::var("x")})); }

TEST(Error, WrongDType) {
  EXPECT_MESSAGE(DTypeError, "exp: input 'data' is int32, but a floating dtype is needed; call astype(float32) first",
                 call("exp", {zeros({1}, {DType::int32})}));
}

TEST(Error, AxisOutOfRange) {
  EXPECT_MESSAGE(ShapeError, "sum: axis 2 is out of range for data of shape (2, 3), which has 2 axes", zeros({2, 3}).sum(Shape{2}));
}

TEST(Error, ShapesThatDoNotBroadcast) {
  EXPECT_MESSAGE(ShapeError, "broadcast_add: shapes (2, 3) and (2, 4) do not broadcast: axis 1 has extents 3 and 4",
                 zeros({2, 3}) + zeros({2, 4}));
}

TEST(Error, ShapesThatDoNotFitTogether) {
  GLUINO_EXPECT_ERROR(ShapeError, "dot: ", call("dot", {zeros({2, 3}), zeros({2, 3})}));
  GLUINO_EXPECT_ERROR(ShapeError, "elemwise_add: ", call("elemwise_add", {zeros({2}), zeros({3})}));
  GLUINO_EXPECT_ERROR(ShapeError, "Concat: ", call("Concat", {zeros({2, 2}), zeros({3, 3})}, {{"dim", int64_t{0}}}));
}

TEST(Error, WrongNumberOfInputs) {
  EXPECT_MESSAGE(UserError, "elemwise_add: 1 input was given, but 2 are needed: lhs, rhs", call("elemwise_add", {zeros({2})}));
}

// Also one that is too many, which has no name.
TEST(Error, NullTensorsAreRefusedByEveryOperator) {
  for (const std::string& name : OpRegistry::global().names())
    for (size_t count = 1; count <= 4; ++count) try {
        call_all(name, Tensors(count));
        ADD_FAILURE() << name << " of " << count << " null tensors has a value";
      } catch (const InternalError& e) {
        ADD_FAILURE() << name << " of " << count << " null tensors: " << e.what();
      } catch (const Error&) {}
}
TEST(Error, NullTensor) {
  EXPECT_MESSAGE(UserError, "relu: input 'data' is a null tensor", call("relu", {Tensor()}));
  EXPECT_MESSAGE(UserError, "a null tensor has no value; it was never assigned", Tensor().shape());
  GLUINO_EXPECT_ERROR(UserError, "null", Tensor() + zeros({1}));
  GLUINO_EXPECT_ERROR(UserError, "null", Tensor()[0]);
  GLUINO_EXPECT_ERROR(UserError, "null", Tensor().item());
  GLUINO_EXPECT_ERROR(UserError, "null", Tensor().backward());
  GLUINO_EXPECT_ERROR(UserError, "null", Tensor().attach_grad());
  GLUINO_EXPECT_ERROR(UserError, "null", Tensor().astype(DType::int8));
  Tensor x;
  GLUINO_EXPECT_ERROR(UserError, "null", x += zeros({1}));
  GLUINO_EXPECT_ERROR(UserError, "null", x.assign(zeros({1})));
  Tensor y = zeros({1});
  GLUINO_EXPECT_ERROR(UserError, "null", y += Tensor());
  GLUINO_EXPECT_ERROR(UserError, "null", y[0] = Tensor());
  GLUINO_EXPECT_ERROR(UserError, "null", y.assign(Tensor()));
}

TEST(Error, TwoDevices) {
  EXPECT_MESSAGE(UserError, "broadcast_add: inputs are on cpu(0) and cpu(1); move one with to(device)",
                 zeros({1}) + zeros({1}, {.device = cpu(1)}));
  EXPECT_MESSAGE(UserError, "gpu(0) is not available: gluino computes on the CPU; use cpu()", gpu(0));
}

TEST(Error, IndexOutOfRange) { EXPECT_MESSAGE(IndexError, "index 5 is out of range for axis 0 with extent 2", zeros({2})[5]); }

TEST(Error, NestedListsOfUnequalLength) {
  GLUINO_EXPECT_ERROR(ShapeError, "tensor: ", tensor({{1, 2}, {3}}));
  GLUINO_EXPECT_ERROR(ShapeError, "tensor: ", tensor({{1, 2}, 3}));
}

TEST(Error, NegativeExtent) {
  GLUINO_EXPECT_ERROR(ShapeError, "(-2,)", empty({-2}));
  GLUINO_EXPECT_ERROR(ShapeError, "_zeros: ", zeros({-2}));
}

TEST(Error, TooManyAxes) { GLUINO_EXPECT_ERROR(ShapeError, "33 axes", zeros(Shape(std::vector<int64_t>(33, 1)))); }

TEST(Error, UnknownDTypeName) { GLUINO_EXPECT_ERROR(AttrError, "'flaot32' is not a dtype; known are ", parse_dtype("flaot32")); }

TEST(Error, ReadingASymbolicTensor) { GLUINO_EXPECT_ERROR(UserError, "symbolic", sym::var("x").tensor().data<float>()); }

TEST(Error, GradientOfWhatHasNone) {
  Tensor x = tensor({1, 2});
  x.attach_grad();
  GLUINO_EXPECT_ERROR(UserError, "was not computed inside autograd::record()", x.copy().backward());
}

TEST(Error, MistakesInOneCallDoNotPoisonTheNext) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_THROW(zeros({2, 3}) + zeros({2, 4}), ShapeError);
    EXPECT_TRUE(same_bits(ones({2}) + ones({2}), tensor({2, 2})));
  }
}

TEST(Error, ThreadCountOfZero) { GLUINO_EXPECT_ERROR(UserError, "0 threads asked for", set_num_threads(0)); }

}  // namespace
}  // namespace gluino::test
