"""Errors that depend on values: raised where they stand, whether anything needs the result or not."""
import pytest

import gluino as mx
from gluino import gluon, nd
from promise import both


class Refusal(mx.operator.CustomOp):
    made = 0

    def forward(self, is_train, req, in_data, out_data, aux):
        Refusal.made += 1
        if in_data[0].asnumpy().sum() > 50:
            raise ValueError("no")
        self.assign(out_data[0], req[0], in_data[0])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0])


@mx.operator.register("refusal_of_large_sums")
class RefusalProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Refusal()


# Each refuses where `bad` is 99 and not where it is 0.
REFUSING = {
    "take": lambda x, bad: nd.take(x, bad, mode="raise"),
    "indexing": lambda x, bad: nd.gather_nd(x, bad.astype("int64").reshape((1, 1))),
    "cholesky": lambda x, bad: nd.linalg.potrf((1 - bad).reshape((1, 1))),
    "constraint": lambda x, bad: mx.npx.constraint_check((bad == 0).as_np_ndarray(), "too large").as_nd_ndarray(),
    "custom": lambda x, bad: nd.Custom(bad, op_type="refusal_of_large_sums"),
}


def net_of(refuse, use):

    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.after = None

        def forward(self, x, bad):
            y = x * 2
            if use == "caught":
                try:
                    y = y + refuse(y, bad).astype("float32").sum()
                except (mx.MXNetError, ValueError, IndexError):
                    y = y * 3
            else:
                refused = refuse(y, bad)
                if use == "needed":
                    y = y + refused.astype("float32").sum()
            self.after = y + 1
            return y

    return Net


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("use", ["ignored", "needed", "caught"])
@pytest.mark.parametrize("first", [0.0, 99.0])
@pytest.mark.parametrize("name", REFUSING)
def test_is_raised_where_it_stands(name, first, use, recorded):
    def drive(net):
        seen = []
        x = nd.array([1.0, 2.0, 3.0])
        x.attach_grad()
        for bad in (first, 0.0, 99.0, 0.0, 99.0):
            try:
                with mx.autograd.record(train_mode=False) if recorded else mx.autograd.pause():
                    y = net(x, nd.array([bad]))
                if recorded:
                    y.backward()
                seen.append(y.asnumpy().tolist())
            except Exception as error:
                seen.append(type(error).__name__)
            seen.append(None if net.after is None else net.after.asnumpy().tolist())
            seen.append(x.grad.asnumpy().tolist())
        return seen

    seen = both(net_of(REFUSING[name], use), drive)
    if use != "caught":
        assert any(isinstance(s[1], str) for s in seen[1])


def test_a_custom_operator_is_run_once_a_call():
    counts = []
    for hybridized in (False, True):
        net = net_of(REFUSING["custom"], "ignored")()
        if hybridized:
            net.hybridize()
        Refusal.made = 0
        for _ in range(4):
            net(nd.array([1.0, 2.0, 3.0]), nd.array([0.0])).asnumpy()
        counts.append(Refusal.made)
    assert counts == [4, 4]
