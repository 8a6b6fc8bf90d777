"""Of which kind results of sparse arrays are, as MXNet documents it, and that their values are those of dense arrays."""
import numpy as np
import pytest

import gluino as mx
from gluino import nd

rng = np.random.RandomState(3)
VALUES = rng.rand(5, 4).astype("float32") * (rng.rand(5, 4) < 0.5)
VALUES[1] = 0
OTHER = rng.rand(5, 4).astype("float32") * (rng.rand(5, 4) < 0.5)
DENSE = rng.rand(5, 4).astype("float32")
KEEP_ZEROS = ("abs sign round rint fix floor ceil trunc square sqrt cbrt sin tan arcsin arctan sinh tanh arcsinh arctanh expm1 log1p relu negative degrees "
              "radians identity stop_gradient make_loss zeros_like").split()


def stored(values, stype):
    return nd.array(values).tostype(stype)


def compare(function, arrays, kind, *args, **kwargs):
    found = function(*arrays, *args, **kwargs)
    wanted = function(*(x.tostype("default") for x in arrays), *args, **kwargs)
    assert found.stype == kind and found.dtype == wanted.dtype
    np.testing.assert_allclose(found.asnumpy(), wanted.asnumpy(), rtol=1e-5, atol=1e-6)
    gradients = []
    arrays = [x.copy() for x in arrays]
    for given in (arrays, [x.tostype("default") for x in arrays]):
        for x in given:
            x.attach_grad()
        with mx.autograd.record():
            recorded = function(*given, *args, **kwargs)
        assert recorded.stype == (kind if given is arrays else "default")
        np.testing.assert_allclose(recorded.asnumpy(), wanted.asnumpy(), rtol=1e-5, atol=1e-6)
        recorded.backward()
        gradients.append([x.grad.asnumpy() for x in given])
    for a, b in zip(*gradients):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
@pytest.mark.parametrize("name", KEEP_ZEROS)
def test_functions_that_keep_zeros_keep_the_kind(name, stype):
    for package in (nd, nd.sparse):
        compare(getattr(package, name), [stored(VALUES, stype)], stype)


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
def test_sums_and_products_of_one_kind(stype):
    a, b = stored(VALUES, stype), stored(OTHER, stype)
    for name in ("elemwise_add", "elemwise_sub", "elemwise_mul", "add_n"):
        compare(getattr(nd, name), [a, b], stype)
    for name in ("add", "subtract", "multiply"):
        compare(getattr(nd.sparse, name), [a, b], stype)
    compare(nd.elemwise_div, [a, stored(OTHER + 1, stype)], "default")
    compare(lambda x, y: x * y, [a, b], stype)
    compare(lambda x: x * 3 / 2 + 0, [a], stype)
    compare(lambda x: x + 1, [a], "default")
    compare(nd.clip, [a], stype, -0.1, 0.5)
    compare(nd.clip, [a], "default", 0.1, 0.5)
    compare(nd.cos, [a], "default")
    compare(nd.sum, [a], "default", axis=1)


def test_products_with_dense_arrays():
    compare(nd.elemwise_mul, [stored(VALUES, "row_sparse"), nd.array(DENSE)], "row_sparse")
    compare(nd.elemwise_mul, [nd.array(DENSE), stored(VALUES, "row_sparse")], "row_sparse")
    for name in ("broadcast_mul", "broadcast_div"):
        compare(getattr(nd, name), [stored(VALUES, "csr"), nd.array(DENSE[0])], "csr")
        compare(getattr(nd, name), [stored(VALUES, "csr"), nd.array(DENSE[:, :1])], "csr")
    compare(nd.broadcast_add, [stored(VALUES, "csr"), nd.array(DENSE[0])], "default")
    with pytest.raises(mx.base.MXNetError):
        nd.broadcast_mul(stored(VALUES, "csr"), nd.ones(7))


@pytest.mark.parametrize("stypes, transposed, kind", [
    (("csr", "default"), (False, False), "default"), (("csr", "default"), (True, False), "row_sparse"), (("csr", "row_sparse"), (False, False), "default"),
    (("default", "csr"), (False, False), "csr"), (("default", "csr"), (False, True), "default"), (("csr", "csr"), (False, True), "default")])
def test_dot(stypes, transposed, kind):
    left, right = (OTHER if transposed[0] else VALUES), DENSE
    right = right.T.copy() if transposed == (False, False) else right
    arrays = [stored(left, stypes[0]), stored(right, stypes[1])]
    for package in (nd, nd.sparse):
        compare(package.dot, arrays, kind, transpose_a=transposed[0], transpose_b=transposed[1])
        assert package.dot(*arrays, transpose_a=transposed[0], transpose_b=transposed[1], forward_stype="default").stype == "default"


def test_matrices_are_joined_and_cut():
    a, b = stored(VALUES, "csr"), stored(OTHER, "csr")
    compare(lambda *x: nd.concat(*x, dim=0), [a, b, a], "csr")
    compare(lambda *x: nd.concat(*x, dim=1), [a, b], "default")
    compare(nd.slice, [a], "csr", begin=(1, 1), end=(4, 3))
    compare(nd.slice, [a], "csr", begin=(-3,), end=(None,))
    compare(nd._internal._square_sum, [stored(VALUES, "row_sparse")], "row_sparse", axis=1, keepdims=True)


def test_gradients_flow_through_sparse_arrays():
    a = stored(VALUES, "row_sparse")
    a.attach_grad()
    with mx.autograd.record():
        y = nd.square(a).sum()
    y.backward()
    np.testing.assert_allclose(a.grad.asnumpy(), 2 * VALUES)


def test_lists_make_float32():
    assert nd.sparse.csr_matrix(([1, 2], ([0, 1], [1, 0])), shape=(3, 3)).dtype == np.float32


@pytest.mark.parametrize("weight_stype", ["default", "row_sparse"])
@pytest.mark.parametrize("name, states, options", [
    ("sgd_update", 0, {"wd": 0.1}), ("sgd_mom_update", 1, {"wd": 0.1, "momentum": 0.9, "clip_gradient": 0.3}), ("adam_update", 2, {"wd": 0.1}),
    ("ftrl_update", 2, {"wd": 0.1})])
def test_steps_with_rows_change_those_rows(name, states, options, weight_stype):
    weight, rows = rng.rand(4, 2).astype("float32") + 0.5, [1, 3]
    grad = np.zeros((4, 2), "float32")
    grad[rows] = 0.5
    sparse_grad = nd.sparse.row_sparse_array((grad[rows], rows), shape=(4, 2))
    kept = [np.full((4, 2), 0.25, "float32") for _ in range(states)]
    dense_states, dense = [nd.array(s) for s in kept], nd.array(weight)
    getattr(nd, name)(dense, nd.array(grad), *dense_states, lr=0.1, out=dense, **options)
    for package in (nd, nd.sparse):
        found, own = nd.array(weight).tostype(weight_stype), [nd.array(s) for s in kept]
        assert getattr(package, name)(found, sparse_grad, *own, lr=0.1, out=found, **options) is found and found.stype == weight_stype
        for array, all_rows, before in zip((found, *own), (dense, *dense_states), (weight, *kept)):
            np.testing.assert_allclose(array.asnumpy()[rows], all_rows.asnumpy()[rows], rtol=1e-5)
            np.testing.assert_array_equal(array.asnumpy()[[0, 2]], before[[0, 2]])
    if name != "ftrl_update":
        everywhere, own = nd.array(weight), [nd.array(s) for s in kept]
        getattr(nd, name)(everywhere, sparse_grad, *own, lr=0.1, lazy_update=False, out=everywhere, **options)
        np.testing.assert_allclose(everywhere.asnumpy(), dense.asnumpy(), rtol=1e-5)
