// What a user may get wrong: each mistake is named, none crashes.
#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

TEST(LayerErrors, Sizes) {
  GLUINO_EXPECT_ERROR(UserError, "units is -3", nn::Dense(-3));
  GLUINO_EXPECT_ERROR(UserError, "cannot have 0 groups", nn::Conv2D(4, 3, {.groups = 0}));
  GLUINO_EXPECT_ERROR(UserError, "cannot have 3 groups", nn::Conv2DTranspose(4, 3, {.groups = 3}));
  GLUINO_EXPECT_ERROR(UserError, "kernel_size is (3, 3, 3), but one number or 2 are needed", nn::Conv2D(4, {3, 3, 3}));
  GLUINO_EXPECT_ERROR(UserError, "at least 1 is needed", nn::Embedding(0, 4));
  GLUINO_EXPECT_ERROR(UserError, "cannot be shared by 2 heads evenly", nn::MultiHeadAttention(5, 2));
  GLUINO_EXPECT_ERROR(UserError, "pool_size is (2, 2, 2)", nn::MaxPool2D({2, 2, 2}));
  nn::Conv2D conv(2, 3);
  conv.initialize();
  GLUINO_EXPECT_ERROR(ShapeError, "4 axes are needed: batch, channels and 2 spatial", conv(ones({3, 4, 4})));
}

TEST(LayerErrors, Recurrent) {
  GLUINO_EXPECT_ERROR(UserError, "it must be TNC or NTC", nn::LSTM(3, {.layout = "NCT"}));
  nn::LSTMCell cell(3);
  cell.initialize();
  GLUINO_EXPECT_ERROR(UserError, "begin_state(x) gives the first ones", cell(ones({2, 3})));
  nn::BidirectionalCell both(std::make_shared<nn::GRUCell>(2), std::make_shared<nn::GRUCell>(2));
  GLUINO_EXPECT_ERROR(UserError, "call unroll()", both(ones({2, 3})));
  GLUINO_EXPECT_ERROR(UserError, "the child 'base_cell' is null", nn::ResidualCell(nullptr));
  GLUINO_EXPECT_ERROR(UserError, "length is 0", cell.unroll(0, ones({2, 3, 4})));
}

TEST(LossErrors, InputsAndOptions) {
  loss::L2Loss l2;
  GLUINO_EXPECT_ERROR(UserError, "1 inputs were given, 2 are needed", l2(ones({2})));
  GLUINO_EXPECT_ERROR(UserError, "signed or binary", loss::LogisticLoss({.label_format = "both"}));
  loss::CTCLoss ctc;
  GLUINO_EXPECT_ERROR(UserError, "lengths are needed of both", ctc(ones({1, 2, 3}), ones({1, 1}), ones({1})));
}

TEST(EstimatorErrors, InputsAndNames) {
  nn::Dense net(2);
  estimator::Estimator e(net, std::make_shared<loss::L2Loss>(), {.metrics = {metric::create("mse")}});
  data::DataLoader unlabelled(data::array_dataset({ones({4, 2})}), 2), labelled(data::array_dataset({ones({4, 2}), ones({4, 2})}), 2);
  GLUINO_EXPECT_ERROR(UserError, "call initialize() on the network first", e.fit(labelled));
  net.initialize();
  GLUINO_EXPECT_ERROR(UserError, "and, last, the label", e.fit(unlabelled));
  GLUINO_EXPECT_ERROR(UserError, "no value is named 'nope'", e.fit(labelled, {.handlers = {estimator::early_stopping("nope")}}));
  GLUINO_EXPECT_ERROR(UserError, "epochs is 0", e.fit(labelled, {.epochs = 0}));
}

}  // namespace
}  // namespace gluino::test
