"""Shapes and types of symbols: what is known of one value says something of its neighbours, before and behind it."""
import numpy as np
import pytest

import gluino as mx
from gluino import nd, sym

ROW = sym.var("row")  # of a shape that is known whole


def argument(out, name="x", **known):
    """What is found about one argument."""
    return out.infer_shape_partial(**known)[0][out.list_arguments().index(name)]


# (function of a symbol, what is known of it, and so of the result, what must be found)
BACKWARD = {
    "elementwise": (lambda x: x + ROW, (0, 3), (2, 3), (2, 3)),
    "unary": (lambda x: sym.exp(x) + ROW, (), (2, 3), (2, 3)),
    "transpose": (lambda x: sym.transpose(x, (1, 0)) + ROW, (0, 0), (2, 3), (3, 2)),
    "transpose of an unknown rank": (lambda x: sym.transpose(x, (2, 0, 1)) + ROW, (), (2, 3, 4), (3, 4, 2)),
    "expand_dims": (lambda x: sym.expand_dims(x, 1) + ROW, (), (2, 1, 4), (2, 4)),
    "reshape": (lambda x: sym.reshape(x, (-1, 6)) + ROW, (0, 3), (4, 6), (8, 3)),
    "concat": (lambda x: sym.concat(x, sym.zeros((2, 4)), dim=1) + ROW, (0, 0), (2, 7), (2, 3)),
    "batches of concat": (lambda x: sym.concat(x, sym.square(x), dim=1) + ROW, (0, 3), (5, 6), (5, 3)),
    "split": (lambda x: sym.split(x, num_outputs=2, axis=1)[0] + ROW, (0, 0), (5, 3), (5, 6)),
    "dense": (lambda x: sym.FullyConnected(x, num_hidden=3) + ROW, (0, 4), (5, 3), (5, 4)),
    "convolution": (lambda x: sym.Convolution(x, kernel=(3, 3), num_filter=4) + ROW, (0, 2, 0, 0), (5, 4, 6, 7), (5, 2, 8, 9)),
    "a stride forgets": (lambda x: sym.Convolution(x, kernel=(3, 3), stride=(2, 1), num_filter=4) + ROW, (0, 2, 0, 0), (5, 4, 6, 7), (5, 2, 0, 9)),
    "batch norm": (lambda x: sym.BatchNorm(x)[0] + ROW, (0, 4), (5, 4), (5, 4)),
    "a factor of 1 or more": (lambda x: sym.broadcast_mul(x, sym.ones((5, 1))) + ROW, (0, 0), (5, 3), (0, 3)),
    "a sum": (lambda x: sym.sum(x, axis=1) + ROW, (0, 0), (5,), (5, 0)),
}


@pytest.mark.parametrize("what", BACKWARD)
def test_backward(what):
    function, known, result, expected = BACKWARD[what]
    given = {"x": known} if known else {}
    assert argument(function(sym.var("x")), row=result, **given) == expected


def test_forward_with_extents_that_are_not_known():
    x = sym.var("x")
    for out, shape, expected in ((sym.broadcast_add(x, sym.ones((5, 1))), (0, 3), (5, 3)), (sym.broadcast_add(x, sym.ones((1, 3))), (0, 3), (0, 3)),
                                 (sym.broadcast_add(x, sym.ones((5, 3))), (0, 0), (5, 3)), (sym.Pooling(x, kernel=(2, 2), stride=(2, 2)), (0, 3, 8, 0), (0, 3, 4, 0)),
                                 (sym.Flatten(x), (0, 3, 4), (0, 12)), (sym.concat(x, x, dim=0), (0, 3), (0, 3))):
        assert out.infer_shape_partial(x=shape)[1] == [expected]
        assert out.infer_shape(x=shape)[0] is None or 0 not in expected
    with pytest.raises(mx.MXNetError, match="fit|broadcast"):
        sym.broadcast_add(x, sym.broadcast_add(sym.ones((5, 0)), sym.ones((4, 3)))).infer_shape_partial(x=(0, 3))


def test_a_net_whose_batch_only_the_label_knows():
    net = sym.SoftmaxOutput(sym.FullyConnected(sym.Activation(sym.FullyConnected(sym.var("data"), num_hidden=8, name="a"), act_type="relu"),
                                               num_hidden=3, name="b"), name="softmax")
    shapes = dict(zip(net.list_arguments(), net.infer_shape_partial(data=(0, 5), softmax_label=(6,))[0]))
    assert shapes["a_weight"] == (8, 5) and shapes["b_weight"] == (3, 8)


def test_zeros_are_extents_with_np_shape():
    out = sym.exp(sym.var("x"))
    assert out.infer_shape(x=(0, 3))[1] is None and out.infer_shape_partial() == ([()], [()], [])
    with mx.np_shape(True):
        assert out.infer_shape(x=(0, 3))[1] == [(0, 3)]
        assert out.infer_shape_partial(x=(-1, 3))[1] == [(-1, 3)] and out.infer_shape(x=(-1, 3))[1] is None
        assert out.infer_shape_partial() == ([None], [None], [])
        assert out.infer_shape(x=())[1] == [()]


def test_types_in_both_directions():
    x, y = sym.var("x"), sym.var("y")
    out = sym.exp(x + sym.cast(y, dtype="float16"))
    assert out.infer_type_partial() == ([np.float16, None], [np.float16], [])
    assert out.infer_type() == (None, None, None)
    assert out.infer_type(y="int32") == ([np.float16, np.int32], [np.float16], [])
    net = sym.BatchNorm(sym.FullyConnected(x, num_hidden=2, name="fc"), name="bn")
    assert net.infer_type_partial() == ([None] * 5, [None], [None, None])
    arguments, outputs, states = net.infer_type(fc_weight="float16")
    assert dict(zip(net.list_arguments(), arguments)) == {"x": np.float16, "fc_weight": np.float16, "fc_bias": np.float16, "bn_gamma": np.float32,
                                                         "bn_beta": np.float32}
    assert outputs == [np.float16] and states == [np.float32, np.float32]
    ids = sym.Embedding(sym.var("ids"), input_dim=3, output_dim=2, name="embedding") * sym.var("scale", dtype="float64")
    assert ids.infer_type_partial()[0][1:] == [np.float64, np.float64]
    with pytest.raises(mx.MXNetError, match="named 'z'"):
        out.infer_type(z="float32")


def test_an_executor_without_types_is_of_float32():
    executor = sym.FullyConnected(sym.var("x"), num_hidden=2, name="fc").simple_bind(x=(3, 4))
    assert executor.arg_dict["fc_weight"].dtype == np.float32
    assert sym.exp(sym.var("x")).simple_bind(x=(2,), type_dict={"x": "float64"}).forward()[0].dtype == np.float64


def test_states_of_a_batch_to_be_found():
    cell = mx.rnn.LSTMCell(4, prefix="lstm_")
    outputs, _ = cell.unroll(3, sym.var("data"), merge_outputs=True)
    assert outputs.infer_shape(data=(7, 3, 5))[1] == [(7, 3, 4)]
    assert nd.ones((2, 3)).reshape((0, -1)).shape == (2, 3)


def test_types_that_are_all_known():
    """Of results there is one more than of arguments to find."""
    a, b = sym.var("a"), sym.var("b", dtype="float16")
    assert (a + b).infer_type(a="float16")[1] == [np.float16] and (b * 2).infer_type()[1] == [np.float16]
    assert sym.zeros((2, 3), dtype="int32").infer_type() == ([], [np.int32], [])
    assert sym.broadcast_greater(a, sym.exp(a)).infer_type_partial(a="float64")[1] == [np.float64]
    assert sym.cast(sym.square(b), dtype="int8").infer_type() == ([np.float16], [np.int8], [])
    assert sym.exp(a).infer_type() == (None, None, None), "nothing says what a is"
