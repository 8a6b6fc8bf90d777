"""Losses of before Gluon learn whatever flows in: also behind operators that pass nothing back, in every way of running a network."""
import numpy as np
import pytest

import gluino as mx
from gluino import autograd, gluon, nd, sym

X, LABEL = nd.array(np.arange(8).reshape(2, 4) / 8), nd.array([0, 2])
LOSSES = {
    "SoftmaxOutput": lambda F, z, label: F.SoftmaxOutput(z, label),
    "LinearRegressionOutput": lambda F, z, label: F.LinearRegressionOutput(z, F.broadcast_like(F.expand_dims(label, 1), z)),
    "SVMOutput": lambda F, z, label: F.SVMOutput(z, label),
    "MakeLoss": lambda F, z, label: F.MakeLoss(z * z),
    "make_loss": lambda F, z, label: F.make_loss(z * z),
}
ENDS = {
    "BlockGrad": lambda F, y: F.BlockGrad(y),
    "BlockGrad of something made of it": lambda F, y: F.BlockGrad(F.reshape(y * 2, (-1,))),
    "an operator without a gradient": lambda F, y: F.sign(F.argmax(y, axis=1)),
    "beside another loss": lambda F, y: F.concat(F.BlockGrad(F.reshape(y, (1, -1))), F.zeros((1, 2)), dim=1),
}


class Net(gluon.HybridBlock):
    def __init__(self, loss, end):
        super().__init__()
        self.loss, self.end = loss, end
        self.layer = gluon.nn.Dense(3, weight_initializer="ones")

    def hybrid_forward(self, F, x, label):
        return self.end(F, self.loss(F, self.layer(x), label))


def gradient(net, hybridized, outside=None):
    net.initialize()
    net.hybridize(hybridized)
    with autograd.record():
        y = net(X, LABEL)
        if outside is not None:
            y = outside(nd, y)
    y.backward()
    return net.layer.weight.grad().asnumpy()


@pytest.mark.parametrize("loss", LOSSES)
def test_alone_and_behind(loss):
    expected = gradient(Net(LOSSES[loss], lambda F, y: y), False)
    assert abs(expected).max() > 0.1
    for name, end in ENDS.items():
        for hybridized in (False, True):
            np.testing.assert_allclose(gradient(Net(LOSSES[loss], end), hybridized), expected, rtol=1e-5, err_msg=name)
            # the loss in the network, the end outside of it
            np.testing.assert_allclose(gradient(Net(LOSSES[loss], lambda F, y: y), hybridized, end), expected, rtol=1e-5, err_msg=name)


def test_an_executor():
    data, label = sym.var("data"), sym.var("label")
    fc = sym.FullyConnected(data, num_hidden=3, name="fc")
    for out in (sym.BlockGrad(sym.SoftmaxOutput(fc, label)), sym.Group([sym.BlockGrad(sym.SoftmaxOutput(fc, label)), sym.MakeLoss(sym.sum(data))])):
        bound = out.simple_bind(mx.cpu(), data=(2, 4), label=(2,))
        bound.forward(is_train=True, data=X, label=LABEL)
        bound.backward()
        expected = np.full((2, 3), 1 / 3)
        expected[[0, 1], [0, 2]] -= 1
        np.testing.assert_allclose(bound.grad_dict["fc_weight"].asnumpy(), expected.T @ X.asnumpy(), rtol=1e-5)


def test_what_is_no_loss_stays_blocked():
    w = nd.array([1.0, 2.0])
    w.attach_grad()
    for function in (lambda: nd.BlockGrad(w * w) * 3, lambda: nd.BlockGrad(nd.softmax(w)) + 0 * w, lambda: nd.argmax(w * w, axis=0)):
        with autograd.record():
            y = function()
        y.backward()
        assert w.grad.asnumpy().tolist() == [0, 0]


def test_a_detached_loss_gives_nothing():
    """detach() leaves the tape; hybridized too."""
    for hybridized in (False, True):
        net = Net(LOSSES["SoftmaxOutput"], lambda F, y: y.detach())
        net.initialize()
        net.hybridize(hybridized)
        w = nd.ones((2, 3))
        w.attach_grad()
        with autograd.record():
            y = (net(X, LABEL) * w).sum()
        y.backward()
        assert abs(net.layer.weight.grad().asnumpy()).max() == 0 and abs(w.grad.asnumpy()).max() > 0


def test_variables_that_are_asked_for():
    z = nd.ones((2, 3))
    z.attach_grad()
    with autograd.record():
        y = nd.BlockGrad(nd.SoftmaxOutput(z, LABEL))
    assert abs(autograd.grad(y, z)[0].asnumpy()).max() == pytest.approx(2 / 3)
