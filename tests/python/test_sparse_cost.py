"""Sparse storage: memory grows with the rows and elements that are touched, not with what they are part of. Counted in bytes."""
import numpy as np
import pytest

import gluino as mx
from gluino import _core, autograd, gluon, nd

ROWS, WIDTH = 2_000_000, 4  # 32 MB as a table
SMALL = 2 << 20


class Allocated:
    """Bytes that a block of code needed beyond what was there, at its worst."""

    def __enter__(self):
        _core.reset_peak(0)
        self._before = _core.memory_stats(0)["live"]
        return self

    def __exit__(self, *_):
        self.bytes = _core.memory_stats(0)["peak"] - self._before


def _step(layer, trainer, words):
    with autograd.record():
        loss = (layer(words) ** 2).sum()
    loss.backward()
    trainer.step(1)


@pytest.mark.parametrize("hybridized", (False, True))
@pytest.mark.parametrize("name, options", (("sgd", {}), ("sgd", {"momentum": 0.9, "wd": 0.1}), ("adam", {}), ("adagrad", {}), ("ftrl", {}), ("groupadagrad", {})))
def test_a_training_step_of_a_large_embedding(name, options, hybridized):
    with Allocated() as all_of_it:
        layer = gluon.nn.Embedding(ROWS, WIDTH, sparse_grad=True)
        layer.initialize(mx.init.One())
        if hybridized:
            layer.hybridize()
    trainer = gluon.Trainer(layer.collect_params(), name, {"learning_rate": 0.1, **options})
    rng = np.random.RandomState(0)
    _step(layer, trainer, nd.array(rng.randint(0, ROWS, (20, 5))))  # the optimizer makes its states
    for _ in range(3):
        words = nd.array(rng.randint(0, ROWS, (20, 5)), dtype="int32")
        with Allocated() as step:
            _step(layer, trainer, words)
        assert step.bytes < SMALL < ROWS * WIDTH * 4 <= all_of_it.bytes
    gradient = layer.weight.grad()
    assert gradient.stype == "row_sparse" and gradient.indices.asnumpy().tolist() == sorted(set(words.asnumpy().reshape(-1)))
    touched = layer.weight.data().asnumpy()[words.asnumpy().reshape(-1)]
    assert (touched < 1).all() and (layer.weight.data().asnumpy() == 1).all(axis=1).sum() >= ROWS - 400


@pytest.mark.parametrize("name, options", (("sgd", {"momentum": 0.9, "wd": 0.1}), ("adam", {"wd": 0.01}), ("adagrad", {}), ("ftrl", {}), ("groupadagrad", {}), ("nag", {"momentum": 0.9}),
                                           ("sgd", {"momentum": 0.9, "wd": 0.1, "lazy_update": False}), ("rmsprop", {})))
@pytest.mark.parametrize("hybridized", (False, True))
def test_lazy_updates_are_those_of_the_rows(name, options, hybridized):
    """The rows that are touched in every step become what the dense optimizer makes of them; without lazy_update all rows do."""
    rng, made = np.random.RandomState(1), []
    first, words = rng.randn(7, 3).astype("float32"), [[1, 4, 1], [4, 1, 4], [1, 1, 4]]
    for sparse in (False, True):
        layer = gluon.nn.Embedding(7, 3, sparse_grad=sparse)
        layer.initialize()
        layer.weight.set_data(nd.array(first))
        if hybridized:
            layer.hybridize()
        trainer = gluon.Trainer(layer.collect_params(), name, {"learning_rate": 0.1, **options})
        for batch in words:
            _step(layer, trainer, nd.array(batch))
        made.append(layer.weight.data().asnumpy())
    np.testing.assert_allclose(made[0][[1, 4]], made[1][[1, 4]], rtol=1e-5, atol=1e-6)
    is_lazy = name in ("sgd", "adam", "adagrad", "ftrl", "groupadagrad") and options.get("lazy_update", True)
    others = [0, 2, 3, 5, 6]
    np.testing.assert_allclose(made[1][others], first[others] if is_lazy else made[0][others], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("hybridized", (False, True))
def test_gradients_of_rows_add_up(hybridized):
    class Twice(gluon.HybridBlock):
        def __init__(self, dense_too):
            super().__init__()
            self.dense_too = dense_too
            with self.name_scope():
                self.table = gluon.nn.Embedding(5, 2, sparse_grad=True)

        def hybrid_forward(self, F, a, b):
            return (self.table(a).sum() + 2 * self.table(b).sum())

    net = Twice(False)
    net.initialize()
    if hybridized:
        net.hybridize()
    weight = net.table.weight
    a, b = nd.array([0, 3, 3]), nd.array([[3, 4]])
    for req, times in (("write", (1, 1)), ("add", (1, 2))):
        weight.grad_req = req
        for factor in times:
            with autograd.record():
                out = net(a, b)
            out.backward()
            expected = factor * np.array([[1, 1], [4, 4], [2, 2]])
            assert weight.grad().indices.asnumpy().tolist() == [0, 3, 4] and (weight.grad().data.asnumpy() == expected).all()
    weight.zero_grad()
    assert weight.grad().indices.shape == (0,) and (weight.grad().asnumpy() == 0).all()
    weight.grad_req = "write"
    with autograd.record():
        out = net(a, b) + (weight.data() * 3).sum()  # and what is dense
    out.backward()
    assert (weight.grad().asnumpy() == np.array([[4, 4], [3, 3], [3, 3], [7, 7], [5, 5]])).all()


def test_what_is_written_into_a_gradient_is_learnt_from():
    table = nd.zeros((6, 2))
    table.attach_grad(stype="row_sparse")
    with autograd.record():
        y = nd.Embedding(nd.array([1, 4]), table, input_dim=6, output_dim=2)
    y.backward()
    assert table.grad.stype == "row_sparse"
    gradient = table.grad
    gradient *= 3
    assert table.grad.data.asnumpy().tolist() == [[3, 3], [3, 3]]
    table.grad[:] = nd.sparse.row_sparse_array(([[7, 8]], [2]), shape=(6, 2))
    assert table.grad.indices.asnumpy().tolist() == [2] and table.grad.data.asnumpy().tolist() == [[7, 8]]
    gradient = table.grad
    gradient += nd.ones((6, 2))
    assert table.grad.asnumpy().tolist() == [[1, 1], [1, 1], [8, 9], [1, 1], [1, 1], [1, 1]]
    second = autograd.grad
    with autograd.record():
        y = (nd.take(table, nd.array([1, 1])) ** 3).sum()
        first = second(y, [table], create_graph=True)[0]
    assert first.shape == (6, 2), "gradients that are differentiated again are dense"


def test_products_of_csr_matrices():
    width = 3_000_000
    rng = np.random.RandomState(0)
    columns = np.sort(rng.randint(0, width, (50, 4)), axis=1)
    x = nd.sparse.csr_matrix((rng.randn(200).astype("float32"), columns.reshape(-1), np.arange(0, 201, 4)), shape=(50, width))
    weight = nd.ones((width, 2))
    weight.attach_grad(stype="row_sparse")
    nd.dot(x, weight)
    with Allocated() as step:
        with autograd.record():
            y = nd.dot(x, weight)
        y.backward()
        gradient = weight.grad
    assert step.bytes < SMALL
    small = np.zeros((50, 200), "float32")
    small[np.repeat(np.arange(50), 4), np.arange(200)] = x.data.asnumpy()
    np.testing.assert_allclose(y.asnumpy(), small @ np.ones((200, 2)), rtol=1e-5)
    assert gradient.indices.shape[0] == len(set(columns.reshape(-1))) and gradient.stype == "row_sparse"
    head = nd.array(rng.randn(50, 3))
    with Allocated() as step:
        back = nd.sparse.dot(x, head, transpose_a=True)
    np.testing.assert_allclose(back.asnumpy()[columns.reshape(-1)[0]], (x.data.asnumpy()[0] * head.asnumpy()[0]), rtol=1e-4)


def test_stores_pull_rows():
    store = mx.kv.create("local")
    with Allocated() as table:
        store.init("table", nd.ones((ROWS, WIDTH)))
    target = nd.sparse.zeros("row_sparse", (ROWS, WIDTH))
    with Allocated() as pull:
        store.row_sparse_pull("table", out=target, row_ids=nd.array([5, 1_999_999, 5]))
    assert pull.bytes < SMALL < table.bytes
    assert target.indices.asnumpy().tolist() == [5, 1_999_999] and target.data.asnumpy().tolist() == [[1] * WIDTH] * 2
    sums = nd.sparse.row_sparse_array(([[1.0] * WIDTH], [3]), shape=(ROWS, WIDTH))
    store.init("sums", nd.sparse.zeros("row_sparse", (ROWS, WIDTH)))
    with Allocated() as push:
        store.push("sums", [sums, sums, nd.sparse.row_sparse_array(([[1.0] * WIDTH], [8]), shape=(ROWS, WIDTH))])
        store.row_sparse_pull("sums", out=target, row_ids=nd.array([3, 8, 9]))
    assert push.bytes < SMALL and target.data.asnumpy()[:, 0].tolist() == [2, 1, 0]


def test_files_and_iterators():
    shape = (3_000_000, 2_000_000)
    with Allocated() as used:
        rows = nd.sparse.row_sparse_array(([[3.0] * 50], [1_000_000]), shape=(2_000_000, 50))
        matrix = nd.sparse.zeros("row_sparse", (ROWS, WIDTH))
        nd.save("sparse.params", {"rows": rows, "none": matrix})
        loaded = nd.load("sparse.params")
    assert used.bytes < SMALL and loaded["rows"].data.asnumpy().sum() == 150 and loaded["rows"].shape == (2_000_000, 50)
    assert loaded["none"].indices.shape == (0,)
    with open("wide.txt", "w") as file:
        for i in range(10):
            file.write(f"{i % 2} {i}:1.5 {shape[1] - 1 - i}:2.5\n")
    with Allocated() as used:
        batches = list(mx.io.LibSVMIter("wide.txt", (shape[1],), batch_size=4))
        total = [batch.data[0].data.asnumpy().sum() for batch in batches]
    assert used.bytes < SMALL and total == [16, 16, 16] and batches[0].data[0].shape == (4, shape[1]) and batches[-1].pad == 2
    csr = nd.sparse.csr_matrix(([1.0, 2.0], [0, 2], [0, 1, 1, 2]), shape=(3, 3))
    batches = list(mx.io.NDArrayIter(csr, nd.array([0, 1, 2]), batch_size=2, last_batch_handle="discard"))
    assert batches[0].data[0].stype == "csr" and batches[0].data[0].asnumpy().tolist() == [[1, 0, 0], [0, 0, 0]]


def test_the_dense_form_and_what_is_stored_stay_in_step():
    x = nd.sparse.row_sparse_array(([[1, 2]], [1]), shape=(3, 2))
    assert (x + 1).asnumpy().tolist() == [[1, 1], [2, 3], [1, 1]]  # makes the dense form
    nd.sgd_update(x, nd.ones((3, 2)), out=x, lr=1.0)
    assert x.indices.asnumpy().tolist() == [0, 1, 2] and x.data.asnumpy().tolist() == [[-1, -1], [0, 1], [-1, -1]]
    x[:] = nd.sparse.row_sparse_array(([[5, 5]], [2]), shape=(3, 2))
    assert (x * 1).asnumpy().tolist() == [[0, 0], [0, 0], [5, 5]] and x.indices.asnumpy().tolist() == [2]
    assert (x * 2).data.asnumpy().tolist() == [[10, 10]] if (x * 2).stype == "row_sparse" else (x * 2).asnumpy()[2].tolist() == [10, 10]
