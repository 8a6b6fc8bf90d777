"""mx.test_utils as MXNet documents it: what tests of operators rest on."""
import numpy as np
import pytest

import gluino as mx
from gluino import test_utils as utils
from gluino.gluon import nn


def test_equal_arrays_may_differ_in_shape_by_broadcasting():
    utils.assert_almost_equal(np.ones((2, 3)), np.ones(3))
    utils.assert_almost_equal(mx.nd.ones((1, 3)), np.ones(3))
    for compare in (utils.assert_almost_equal, utils.almost_equal):
        with pytest.raises(AssertionError):
            compare(np.ones((2, 3)), np.ones(3), use_broadcast=False)
    with pytest.raises(AssertionError):
        utils.assert_almost_equal(np.array([True, False]), np.array([True, True]))
    utils.assert_almost_equal(np.array([np.inf, -np.inf]), np.array([np.inf, -np.inf]))
    with pytest.raises(AssertionError):
        utils.assert_almost_equal(np.array([np.nan]), np.array([np.nan]))
    utils.assert_almost_equal(np.array([np.nan]), np.array([np.nan]), equal_nan=True)
    assert not utils.almost_equal(np.float32([1.0]), np.float32([1.00005])), "the tolerances of float64 hold without others"
    utils.assert_almost_equal(np.float32([1.0]), np.float32([1.00005]))


def test_a_share_of_the_elements_may_differ():
    a, b = np.zeros(10), np.zeros(10)
    b[0] = 1
    utils.assert_almost_equal_with_err(a, b, etol=0.1)
    with pytest.raises(AssertionError):
        utils.assert_almost_equal_with_err(a, b, etol=0.05)


def test_values_given_as_numpy_arrays_are_of_the_asked_dtype():
    x, y = mx.sym.var("x"), mx.sym.var("y")
    whole = np.arange(6).reshape(2, 3)
    assert utils.check_symbolic_forward(x / y, [whole, whole + 2], [whole / (whole + 2)])[0].dtype == np.float32
    assert utils.check_symbolic_forward(x + y, [whole, whole], [2 * whole], dtype="asnumpy")[0].dtype == np.int64
    assert utils.check_symbolic_forward(x * 1, [np.ones(3)], [np.ones(3)], dtype=np.float64)[0].dtype == np.float64
    assert utils.simple_forward(x * 2, x=np.ones(3)).dtype == np.float32
    with pytest.raises(ValueError):
        utils.check_symbolic_forward(x + y, {"x": whole}, [whole])


def test_gradients_are_given_by_name_and_may_be_added():
    x, y = mx.sym.var("x"), mx.sym.var("y")
    a, b, head = (np.random.rand(2, 3) for _ in range(3))
    for request in ("write", "add", ["write", "add"], {"x": "add", "y": "null"}):
        found = utils.check_symbolic_backward(x * y, [a, b], [head], [head * b, head * a], grad_req=request)
        assert set(found) == {"x", "y"} and isinstance(found["x"], mx.nd.NDArray)
    pair = mx.sym.Group([x * 2, x * 3])
    names = pair.list_outputs()
    utils.check_symbolic_backward(pair, [a], dict(zip(names, (head, head))), {"x": 5 * head})
    with pytest.raises(AssertionError):
        utils.check_symbolic_backward(x * y, [a, b], [head], [head * b, head * b])
    for request in ("write", "add", "null"):
        utils.check_numeric_gradient(x * y + mx.sym.sin(x), [a, b], grad_nodes={"x": request, "y": "write"})
    sums = x.as_np_ndarray()
    with mx.util.np_shape():
        utils.check_numeric_gradient(mx.sym.np.sum(sums * sums), [a])


def test_gradients_of_rows():
    data, weight = mx.sym.var("data"), mx.sym.var("weight")
    net = mx.sym.Embedding(data, weight, input_dim=5, output_dim=2, sparse_grad=True)
    rows = np.array([1.0, 3.0])
    wanted = np.zeros((5, 2))
    wanted[[1, 3]] = 1
    found = utils.check_symbolic_backward(net, [rows, np.random.rand(5, 2)], [np.ones((2, 2))], {"weight": wanted},
                                          grad_req={"data": "null", "weight": "write"}, grad_stypes={"weight": "row_sparse"})
    assert found["weight"].stype == "row_sparse"
    utils.check_numeric_gradient(net, [rows, np.random.rand(5, 2)], grad_nodes=["weight"], grad_stype_dict={"weight": "row_sparse"})


def test_consistency_gives_the_most_exact_results_by_name():
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    where = [{"ctx": mx.cpu(), "data": (2, 4), "type_dict": {"data": t}} for t in (np.float32, np.float64)]
    for request in ("write", "add", "null"):
        found = utils.check_consistency(net, where, grad_req=request)
        assert found["fc_output"].dtype == np.float64
        assert ("fc_weight" in found) == (request != "null")
    given = {"data": np.ones((2, 4)), "fc_weight": np.ones((3, 4)), "fc_bias": np.zeros(3)}
    utils.check_consistency(net, where, arg_params=given, grad_req="null", ground_truth={"fc_output": np.full((2, 3), 4.0)})
    with pytest.raises(AssertionError):
        utils.check_consistency(net, where, arg_params=given, grad_req="null", ground_truth={"fc_output": np.full((2, 3), 5.0)})
    utils.check_consistency(net, where, arg_params=given, grad_req="null", ground_truth={"fc_output": np.full((2, 3), 5.0)}, raise_on_err=False)


def test_random_arrays_have_the_documented_ranges():
    dense = utils.rand_ndarray((400,))
    assert dense.dtype == np.float32 and float(dense.max().asscalar()) > 1.5 > -1.5 > float(dense.min().asscalar())
    for stype in ("csr", "row_sparse"):
        values = utils.rand_ndarray((30, 20), stype, density=0.9).asnumpy()
        assert 0 <= values.min() and 0.5 < values.max() < 1
    array, (values, rows) = utils.rand_sparse_ndarray((5, 2), "row_sparse", rsp_indices=[1, 3])
    assert isinstance(values, np.ndarray) and isinstance(rows, np.ndarray)
    np.testing.assert_array_equal(array.asnumpy()[rows], values)
    assert utils.create_sparse_array_zd((6, 2), "row_sparse", 0.5, rsp_indices=[4, 2]).indices.asnumpy().tolist() == [2, 4]
    assert utils.create_sparse_array_zd((6, 2), "row_sparse", 0.5).indices.shape == (0,)
    assert isinstance(utils.get_identity_mat(3), mx.nd.NDArray) and utils.get_identity_mat_batch(3).shape == (2, 3, 3)
    with pytest.raises(TypeError):
        utils.random_uniform_arrays((2,), lower=1)


def test_matrices_have_real_eigenvalues_that_are_well_determined():
    for n in (1, 2, 5, 8):
        matrix = utils.new_matrix_with_real_eigvals_2d(n)
        values, vectors = np.linalg.eig(matrix)
        assert np.abs(np.imag(values)).max() < 1e-9 and np.linalg.cond(vectors) < 10 and np.abs(values).max() <= 10
        symmetric = utils.new_sym_matrix_with_real_eigvals_2d(n)
        np.testing.assert_allclose(symmetric, symmetric.T, atol=1e-9)


@pytest.mark.parametrize("g_stype", ["default", "row_sparse"])
def test_optimizers_are_compared_dense_with_rows(g_stype):
    utils.compare_optimizer(mx.optimizer.SGD(momentum=0.9, lazy_update=False), mx.optimizer.SGD(momentum=0.9, lazy_update=False), (3, 4), np.float32,
                            g_stype=g_stype)
    utils.compare_optimizer(mx.optimizer.SGD(), mx.optimizer.SGD(), [(3, 4), (5,)], np.float32, ntensors=2)
    with pytest.raises(AssertionError):
        utils.compare_optimizer(mx.optimizer.SGD(learning_rate=0.1), mx.optimizer.SGD(learning_rate=0.5), (3, 4), np.float32)


@mx.util.use_np
def test_blocks_are_built_with_a_prefix():
    class Scaled(nn.HybridBlock):
        def __init__(self, prefix=None, params=None):
            super().__init__(prefix, params)
            with self.name_scope():
                self.scale = self.params.get("scale", shape=(3,))

        def hybrid_forward(self, F, x, scale):
            return x * scale
    prefixes = []

    def build(prefix):
        prefixes.append(prefix)
        return Scaled(prefix=prefix)
    utils.check_gluon_hybridize_consistency(build, [mx.np.ones((2, 3))])
    assert set(prefixes) == {"net_"}
    utils.check_gluon_hybridize_consistency(lambda prefix: nn.Dense(4, prefix=prefix), [mx.np.random.normal(size=(2, 3))])
    utils.check_gluon_hybridize_consistency(lambda prefix: nn.HybridLambda("relu", prefix=prefix), [mx.np.array([-1.0, 2.0])],
                                            numpy_func=lambda x: np.maximum(x, 0))


def test_small_helpers():
    np.testing.assert_array_equal(utils.collapse_sum_like(np.ones((2, 0, 3)), (0, 3)), np.zeros((0, 3)))
    assert utils.assign_each(np.zeros((0,)), lambda x: x + 1).shape == (0,)
    with pytest.raises(AssertionError):
        utils.assign_each2(np.zeros(2), np.zeros(3), lambda a, b: a)
    utils.set_default_context(mx.cpu(1))
    assert mx.nd.ones(1).context == mx.cpu(1) == utils.default_context()
    utils.set_default_context(mx.cpu(0))
    names = {}
    exec("from gluino.test_utils import *", names)
    assert {"OrderedDict", "platform", "get_cuda_compute_capability", "npt", "rnd"} <= set(names)
