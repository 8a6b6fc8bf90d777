"""mx.nd.sparse: what a sparse array answers, whatever it is stored in."""
import pickle

import numpy as np
import pytest

import gluino as mx
from gluino import autograd, gluon, nd


def test_csr_matrices():
    x = nd.sparse.csr_matrix(([1, 0, 3], [1, 0, 2], [0, 1, 2, 2, 3]), shape=(4, 3))
    assert x.stype == "csr" and isinstance(x, nd.sparse.CSRNDArray) and repr(x) == "\n<CSRNDArray 4x3 @cpu(0)>"
    assert x.data.asnumpy().tolist() == [1, 0, 3], "a zero that is stored stays"
    assert x.indices.asnumpy().tolist() == [1, 0, 2] and x.indptr.asnumpy().tolist() == [0, 1, 2, 2, 3] and x.indptr.dtype == np.int64
    dense = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 3]], "float32")
    assert (x.asnumpy() == dense).all() and x.dtype == np.float32 and x.shape == (4, 3)
    weight = np.arange(6, dtype="float32").reshape(3, 2)
    assert (nd.dot(x, nd.array(weight)).asnumpy() == dense @ weight).all()
    assert (nd.sparse.dot(x, nd.ones((4, 1)), transpose_a=True).asnumpy() == dense.T @ np.ones((4, 1))).all()
    part = x[1:4]
    assert part.stype == "csr" and part.indptr.asnumpy().tolist() == [0, 1, 1, 2] and (part.asnumpy() == dense[1:4]).all()
    assert x[3].data.asnumpy().tolist() == [3] and x.tostype("default").stype == "default" and x.copy().data.shape == (3,)
    coordinates = nd.sparse.csr_matrix((nd.array([5, 6]), (nd.array([1, 0]), nd.array([2, 0]))), shape=(2, 3))
    assert coordinates.asnumpy().tolist() == [[6, 0, 0], [0, 0, 5]] and coordinates.data.asnumpy().tolist() == [6, 5]
    assert nd.array(dense).tostype("csr").indices.asnumpy().tolist() == [1, 2] and nd.sparse.add(x, x).stype == "csr"
    assert nd.zeros((2, 3), stype="csr").data.shape == (0,) and nd.sparse.csr_matrix((2, 3)).shape == (2, 3)
    for wrong in (([1], [0], [0, 2]), ([1], [7], [0, 1])):
        with pytest.raises(ValueError):
            nd.sparse.csr_matrix(wrong, shape=(1, 3))
    with pytest.raises(mx.base.NotSupportedForSparseNDArray):
        x.reshape((3, 4))


def test_row_sparse_arrays():
    x = nd.sparse.row_sparse_array(([[3, 4], [1, 2]], [4, 1]), shape=(6, 2))
    assert x.stype == "row_sparse" and x.indices.asnumpy().tolist() == [1, 4] and x.data.asnumpy().tolist() == [[1, 2], [3, 4]]
    kept = x.retain(nd.array([0, 4]))
    assert kept.indices.asnumpy().tolist() == [0, 4] and kept.data.asnumpy().tolist() == [[0, 0], [3, 4]] and kept.shape == (6, 2)
    assert nd.sparse.zeros("row_sparse", (3, 2)).data.shape == (0, 2) and nd.ones((3, 2)).tostype("row_sparse").indices.shape == (3,)
    target = nd.zeros((6, 2))
    x.copyto(target)
    assert (target.asnumpy() == x.asnumpy()).all() and x.copyto(mx.cpu(1)).indices.asnumpy().tolist() == [1, 4]
    again = pickle.loads(pickle.dumps(x))
    assert again.stype == "row_sparse" and again.indices.asnumpy().tolist() == [1, 4]
    x[:] = nd.zeros((6, 2))
    assert x.indices.shape == (0,)
    with pytest.raises(ValueError):
        x[0]


def test_gradients_are_of_the_kind_that_was_wanted():
    for kind in ("csr", "row_sparse"):
        x = nd.ones((2, 3)).tostype(kind)
        assert x.grad is None and x.detach().stype == kind
        x.attach_grad()
        with autograd.record():
            y = x * 2
        y.backward(nd.ones((2, 3)).tostype(kind))
        assert x.grad.stype == kind and (x.grad.asnumpy() == 2).all()
        x.attach_grad(stype="default")
        assert x.grad.stype == "default"


def test_gradients_of_embeddings_have_few_rows():
    layer = gluon.nn.Embedding(10, 2, sparse_grad=True)
    layer.initialize()
    with autograd.record():
        loss = layer(nd.array([3, 5, 3])).sum()
    loss.backward()
    gradient = layer.weight.grad()
    assert gradient.stype == "row_sparse" and gradient.indices.asnumpy().tolist() == [3, 5] and gradient.data.asnumpy().tolist() == [[2, 2], [1, 1]]
    before = layer.weight.data().asnumpy()
    gluon.utils.clip_global_norm([gradient], 1.0)
    gluon.Trainer(layer.collect_params(), "sgd", {"learning_rate": 1.0}).step(1)
    assert np.linalg.norm(layer.weight.data().asnumpy() - before) == pytest.approx(1, rel=1e-4), "what was clipped is what is learnt from"


def test_files_keep_the_kind():
    arrays = {"csr": nd.sparse.csr_matrix(([1, 0, 3], [1, 0, 2], [0, 1, 2, 2, 3]), shape=(4, 3)), "dense": nd.ones((2,)),
              "rows": nd.sparse.row_sparse_array(([[3, 4]], [4]), shape=(6, 2))}
    nd.save("x.params", arrays)
    loaded = nd.load("x.params")
    for name, array in arrays.items():
        assert loaded[name].stype == array.stype and (loaded[name].asnumpy() == array.asnumpy()).all()
    assert loaded["csr"].data.asnumpy().tolist() == [1, 0, 3] and loaded["rows"].indices.asnumpy().tolist() == [4]
    with open("x.params", "rb") as file:
        assert nd.load_frombuffer(file.read())["csr"].stype == "csr"


def test_a_column_that_rows_do_not_have_is_named():
    for line in ("1 2:1 20:3", "1 -1:2"):
        with open("wide.txt", "w") as file:
            file.write(line + "\n")
        with pytest.raises(mx.base.FileError, match="wide.txt"):
            mx.io.LibSVMIter("wide.txt", (20,), batch_size=1)


def test_a_linear_model_learns_from_a_libsvm_file():
    rng = np.random.RandomState(0)
    with open("data.txt", "w") as file:
        for _ in range(200):
            columns = sorted(rng.choice(20, 4, replace=False))
            label = int(sum(c < 10 for c in columns) >= 2)
            file.write(f"{label} " + " ".join(f"{c}:1.0" for c in columns) + "\n")
    data = mx.io.LibSVMIter("data.txt", (20,), batch_size=20)
    weight, bias = gluon.Parameter("weight", shape=(20, 1), init="zeros"), gluon.Parameter("bias", shape=(1,), init="zeros")
    weight.initialize(), bias.initialize()
    trainer = gluon.Trainer([weight, bias], "sgd", {"learning_rate": 1.0})
    loss_of = gluon.loss.SigmoidBinaryCrossEntropyLoss()
    for _ in range(20):
        data.reset()
        right = 0
        for batch in data:
            assert batch.data[0].stype == "csr"
            with autograd.record():
                out = nd.dot(batch.data[0], weight.data()) + bias.data()
                loss = loss_of(out, batch.label[0])
            loss.backward()
            trainer.step(20)
            right += ((out.reshape(-1) > 0) == batch.label[0]).sum().asscalar()
    assert right > 180


@pytest.mark.parametrize("stype", ("csr", "row_sparse"))
def test_functions_that_leave_zeros_zero_keep_the_kind(stype):
    dense = nd.array([[0, 0.5, 0], [-0.25, 0, 0.75], [0, 0, 0]])
    sparse = dense.tostype(stype)
    for name in "abs sign floor ceil square sin tan arcsin arctan sinh tanh arcsinh arctanh expm1 relu negative rint".split():
        for made in (getattr(nd.sparse, name)(sparse), getattr(sparse, name)()):
            assert made.stype == stype, name
            np.testing.assert_allclose(made.asnumpy(), getattr(nd, name)(dense).asnumpy(), rtol=1e-6)
    assert nd.sparse.exp(sparse).stype == "default" and nd.sparse.square(dense).stype == "default"
    assert (sparse + sparse).stype == (sparse - sparse).stype == (sparse * 2).stype == stype and (sparse + dense).stype == "default"
    np.testing.assert_allclose((sparse + sparse).asnumpy(), dense.asnumpy() * 2)
    sparse.attach_grad()
    with autograd.record():
        loss = (nd.sparse.square(sparse) + sparse).sum()
    loss.backward()
    np.testing.assert_allclose(sparse.grad.asnumpy()[0, 1], 2)
