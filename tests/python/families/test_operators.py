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


@pytest.mark.parametrize("k", [3, 9, -2, -7])
def test_a_diagonal_beyond_the_edge_is_refused_by_nd_and_empty_in_np(k):
    x = random(2, 3)
    with pytest.raises(mx.base.MXNetError, match="beyond"):
        nd.diag(x, k=k)
    assert mx.np.diag(x.as_np_ndarray(), k=k).shape == np.diag(x.asnumpy(), k=k).shape
    assert nd.diag(x, k=2).shape == nd.diag(x, k=-1).shape == (1,)


@pytest.mark.parametrize("begin, end", [(3, 2), (3, 3), (3, 9), (7, 9), (-9, 3), (4, -2)])
def test_slice_axis_refuses_what_is_no_part_of_the_axis(begin, end):
    for call in (lambda: nd.slice_axis(random(5, 3), axis=0, begin=begin, end=end),
                 lambda: mx.sym.slice_axis(mx.sym.var("x"), axis=0, begin=begin, end=end).infer_shape(x=(5, 3))):
        with pytest.raises(mx.base.MXNetError, match="no part"):
            call()
    assert nd.slice_axis(random(5, 3), axis=0, begin=-2, end=None).shape == (2, 3)


def test_inputs_of_operators_that_take_many_may_have_names():
    x, w = mx.sym.var("x"), mx.sym.var("w")
    up = mx.sym.UpSampling(data=x, weight=w, scale=2, sample_type="bilinear", num_filter=3, num_args=2)
    assert up.list_arguments() == ["x", "w"] and up.infer_shape(x=(1, 3, 4, 4))[0] == [(1, 3, 4, 4), (3, 1, 4, 4)]
    assert mx.sym.Concat(arg0=x, arg1=w, dim=1).list_arguments() == ["x", "w"]


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


@pytest.mark.parametrize("steps", [1, 3, 5])
def test_while_loop_gives_as_many_rows_as_it_may_make_steps(steps):
    x = nd.array([2.0, 3.0])
    x.attach_grad()
    with mx.autograd.record():
        rows, (count, last) = nd.contrib.while_loop(lambda i, s: i < steps, lambda i, s: (s * s, [i + 1, s * 2]), [nd.zeros(1), x], max_iterations=5)
        total = rows.sum()
    total.backward()
    wanted = np.array([x.asnumpy() ** 2 * 4 ** i if i < steps else [0, 0] for i in range(5)])
    np.testing.assert_allclose(rows.asnumpy(), wanted)
    np.testing.assert_allclose(x.grad.asnumpy(), 2 * wanted.sum(0) / x.asnumpy())
    assert count.asscalar() == steps


def test_kvstores_of_one_process_check_what_compression_is_asked_for():
    with pytest.raises(Exception, match="not supported"):
        mx.kv.create("local").set_gradient_compression({"type": "2bit"})
    store = mx.kv.create("device")
    store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
    for wrong in ({"type": "1bit"}, {"type": "2bit", "threshold": -1}):
        with pytest.raises(mx.base.MXNetError, match="compression"):
            store.set_gradient_compression(wrong)
