"""mx.nd's operators: documented attributes and special cases."""
import numpy as np
import pytest

import gluino as mx
from gluino import nd


def random(*shape):
    return nd.array(np.random.randn(*shape))


@pytest.mark.parametrize("shape, code, wanted", [
    ((64,), (16, 4, -4), (16, 4)), ((64,), (16, -1, -4), (16, 4)), ((1, 2, 3, 64), (-2, -1, 16, -4), (1, 2, 3, 4, 16)), ((6, 5), (2, 3, -4, 0), (2, 3, 5)),
    ((2, 3, 4, 5), (3, -1, 0), (3, 8, 5)), ((2, 3, 5, 6), (-2, 1, 30), (2, 3, 1, 30))])
def test_reshape_reads_codes_from_the_end(shape, code, wanted):
    x = random(*shape)
    assert nd.reshape(x, shape=code, reverse=True).shape == x.reshape(code, reverse=True).shape == wanted
    assert mx.sym.reshape(mx.sym.var("x"), shape=code, reverse=True).infer_shape(x=shape)[1] == [wanted]
    np.testing.assert_array_equal(nd.reshape(x, shape=code, reverse=True).asnumpy().ravel(), x.asnumpy().ravel())


def test_reshape_refuses_a_split_without_extents():
    for code, reverse in (((-4, 2), False), ((2, -4), True), ((-4, 2, 3), True)):
        with pytest.raises(mx.base.MXNetError, match="-4"):
            nd.reshape(nd.ones(6), shape=code, reverse=reverse)


def test_inputs_stand_in_the_order_that_the_attributes_ask_for():
    data, labels, lengths = random(5, 2, 4), nd.array([[1, 2, 0], [3, 0, 0]]), nd.array([2, 1])
    np.testing.assert_allclose(nd.ctc_loss(data, labels, lengths, use_label_lengths=True).asnumpy(),
                               nd.ctc_loss(data, labels, label_lengths=lengths, use_label_lengths=True).asnumpy())
    hidden, inputs = 5, 3
    parameters, state = random(3 * hidden * (inputs + hidden + 2)), nd.zeros((1, 2, hidden))
    options = {"mode": "gru", "state_size": hidden, "num_layers": 1, "use_sequence_length": True}
    x, until = random(4, 2, inputs), nd.array([2, 4])
    np.testing.assert_allclose(nd.RNN(x, parameters, state, until, **options).asnumpy(),
                               nd.RNN(x, parameters, state, sequence_length=until, **options).asnumpy())
    with pytest.raises(TypeError, match="sequence_length"):
        nd.RNN(x, parameters, state, **options)
