"""mx.nd's operators: documented attributes and special cases."""
import numpy as np
import pytest

import gluino as mx
from gluino import nd, sym


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


@pytest.mark.parametrize("axis", (0, 1))
@pytest.mark.parametrize("mode", ("eager", "hybridized", "bound"))
def test_sequences_of_length_0(axis, mode):
    """Rows that fill a batch up have none: the last step is their first, nothing is reversed, all is masked."""
    x = np.arange(1, 13, dtype="float32").reshape((3, 2, 2) if axis == 0 else (2, 3, 2))
    lengths, steps = np.array([0, 2], "float32"), x.swapaxes(0, axis)

    def run(name, weight, **options):
        arrays = nd.array(x), nd.array(lengths)
        if mode == "bound":
            inputs = [sym.var(key) for key in ("x", "lengths")]
            bound = getattr(sym, name)(*inputs, use_sequence_length=True, axis=axis, **options).bind(
                mx.cpu(), dict(zip(("x", "lengths"), arrays)), {"x": nd.zeros(x.shape)}, {"x": "write", "lengths": "null"})
            out = bound.forward(is_train=True)[0]
            bound.backward(nd.array(weight(out)))
            return out.asnumpy(), bound.grad_dict["x"].asnumpy()
        arrays[0].attach_grad()
        block = mx.gluon.nn.HybridLambda(lambda F, x, n: getattr(F, name)(x, n, use_sequence_length=True, axis=axis, **options))
        block.hybridize(mode == "hybridized")
        with mx.autograd.record():
            out = block(*arrays)
        out.backward(nd.array(weight(out)))
        return out.asnumpy(), arrays[0].grad.asnumpy()

    def counted(out):
        return np.arange(1, out.size + 1, dtype="float32").reshape(out.shape)
    out, grad = run("SequenceLast", counted)
    np.testing.assert_array_equal(out, [steps[0, 0], steps[1, 1]])
    expected = np.zeros_like(steps)
    expected[0, 0], expected[1, 1] = counted(out)
    np.testing.assert_array_equal(grad.swapaxes(0, axis), expected)
    out, grad = (values.swapaxes(0, axis) for values in run("SequenceReverse", counted))
    np.testing.assert_array_equal(out[:, 0], steps[:, 0])
    np.testing.assert_array_equal(out[:, 1], steps[[1, 0, 2], 1])
    np.testing.assert_array_equal(grad[:, 0], counted(x).swapaxes(0, axis)[:, 0])
    out, grad = (values.swapaxes(0, axis) for values in run("SequenceMask", counted, value=-1))
    assert (out[:, 0] == -1).all() and (grad[:, 0] == 0).all() and (out[:2, 1] == steps[:2, 1]).all() and (out[2, 1] == -1).all()


def test_lengths_of_sequences():
    x = nd.ones((3, 2, 2))
    assert (nd.SequenceMask(x, nd.array([5, 3]), use_sequence_length=True).asnumpy() == 1).all()  # nothing to mask
    for name, lengths in (("SequenceLast", [4, 1]), ("SequenceLast", [-1, 1]), ("SequenceReverse", [4, 1]), ("SequenceReverse", [-1, 1]),
                          ("SequenceMask", [-1, 1])):
        with pytest.raises(IndexError, match="out of range"):
            getattr(nd, name)(x, nd.array(lengths), use_sequence_length=True).wait_to_read()
    with pytest.raises(mx.MXNetError, match="no step"):
        nd.SequenceLast(mx.np.ones((0, 2, 2)).as_nd_ndarray()).wait_to_read()
