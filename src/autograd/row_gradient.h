// Gradients of tables of which a step touches few rows: leaves that keep the rows alone, so that memory and time grow with those.
#pragma once
#include <utility>

#include "autograd/tape.h"

namespace gluino::autograd {

// As attach_grad(); backward leaves the rows that were picked where everything that flows back is such. Nothing is allocated before.
void attach_row_grad(Tensor leaf, GradReq req);
bool keeps_rows(const Tensor& leaf);

// The numbers of the rows, ascending, and their gradients: memory of the leaf, so that what is written there is what is learnt from.
// Null tensors where the gradient is dense: something else flowed back, or somebody asked for grad(), which makes it so for good.
std::pair<Tensor, Tensor> row_gradient(const Tensor& leaf);

// ---- for backward
void set_rows(TapeEntry& leaf, std::vector<PickedRows> pieces);  // the gradient is their sum
void forget_rows(TapeEntry& leaf);                               // the gradient is zero
Tensor dense_gradient(TapeEntry& leaf);                          // from now on

}  // namespace gluino::autograd
