"""What a kvstore, SyncBatchNorm, compressed gradients and samplers give on several ranks."""
import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd

kv = mx.kv.create("dist_device_sync")
rank, ranks = kv.rank, kv.num_workers
assert kv.type == "dist_device_sync" and 0 <= rank < ranks

kv.init("a", nd.full((2, 3), rank + 1))
out = nd.zeros((2, 3))
kv.pull("a", out=out)
assert (out.asnumpy() == 1).all(), "the first value is rank 0's"
kv.push("a", [nd.full((2, 3), rank + 1), nd.ones((2, 3))])
kv.pull("a", out=out)
assert (out.asnumpy() == ranks * (ranks + 1) / 2 + ranks).all(), out
kv.pushpull("a", nd.ones((2, 3)) * 2, out=out)
assert (out.asnumpy() == 2 * ranks).all()
kv.broadcast("b", nd.full((4,), rank), out=[nd.zeros((4,))])
rows = nd.sparse.row_sparse_array((np.ones((1, 2), np.float32), [rank % 3]), shape=(3, 2))
kv.init("rows", nd.zeros((3, 2)))
kv.push("rows", rows)
got = nd.zeros((3, 2))
kv.pull("rows", out=got, ignore_sparse=False)
assert got.sum().asscalar() == 2 * ranks, got

kv.init("w", nd.ones((3,)))
kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.5, rescale_grad=1 / ranks))
kv.push("w", nd.full((3,), rank + 1))
w = nd.zeros((3,))
kv.pull("w", out=w)
assert np.allclose(w.asnumpy(), 1 - 0.5 * (ranks + 1) / 2), w
kv.barrier()

packed = mx.kv.create("dist_sync")
packed.set_gradient_compression({"type": "2bit", "threshold": 0.5})
packed.init(3, nd.zeros((4,)))
sent = np.zeros(4)
for _ in range(5):
    packed.push(3, nd.array([0.3, -0.6, 0.1, 0.0]))
    got = nd.zeros((4,))
    packed.pull(3, out=got)
    assert set(np.abs(got.asnumpy()) % 0.5) == {0.0}
    sent += got.asnumpy()
assert np.all(np.abs(sent / ranks - 5 * np.array([0.3, -0.6, 0.1, 0.0])) <= 0.5 + 1e-5), sent
try:
    packed.set_gradient_compression({"type": "3bit"})
    raise SystemExit("a compression that is not there was taken")
except mx.MXNetError:
    pass

# A table of which every rank touches other rows learns from all of them.
for hybridize in (False, True):
    table = gluon.nn.Embedding(8, 2, sparse_grad=True)
    table.initialize(mx.init.One())
    if hybridize:
        table.hybridize()
    trainer = gluon.Trainer(table.collect_params(), "sgd", {"learning_rate": 1.0}, kvstore="dist_sync")
    for _ in range(2):
        with autograd.record():
            loss = table(nd.array([rank, rank, 7])).sum()
        loss.backward()
        trainer.step(1)
    expected = np.ones((8, 2), np.float32)
    expected[:ranks] -= 4
    expected[7] -= 2 * ranks
    assert (table.weight.data().asnumpy() == expected).all(), table.weight.data()

# SyncBatchNorm over ranks is BatchNorm over the whole batch: values, gradients, running statistics.
rng = np.random.RandomState(3)
whole = rng.randn(4 * ranks, 3, 5, 5).astype(np.float32) * 2 + 1
weights = rng.randn(*whole.shape).astype(np.float32)
for hybridize in (False, True):
    for uneven in (False, True):
        end = [4 * (r + 1) for r in range(ranks)]
        if uneven and ranks > 1:
            end[0] += 2
        begin = [0] + end[:-1]
        own = slice(begin[rank], end[rank])
        results = []
        for layer, part in ((gluon.nn.BatchNorm(), slice(None)), (gluon.contrib.nn.SyncBatchNorm(), own)):
            layer.initialize()
            if hybridize:
                layer.hybridize()
            for _ in range(3):
                x = nd.array(whole[part])
                x.attach_grad()
                with autograd.record():
                    y = layer(x)
                    loss = (y * nd.array(weights[part])).sum()
                loss.backward()
            results.append((y.asnumpy(), x.grad.asnumpy(), layer.gamma.grad().asnumpy(), layer.beta.grad().asnumpy(),
                            layer.running_mean.data().asnumpy(), layer.running_var.data().asnumpy(), layer(nd.array(whole[part])).asnumpy()))
        alone, synced = results
        where = f"hybridize={hybridize} uneven={uneven}"
        np.testing.assert_allclose(synced[0], alone[0][own], rtol=1e-4, atol=1e-5, err_msg=where)
        np.testing.assert_allclose(synced[1], alone[1][own], rtol=1e-3, atol=1e-4, err_msg=where)
        for k in (2, 3):
            total = mx.distributed.all_reduce(nd.array(synced[k])).asnumpy()
            np.testing.assert_allclose(total, alone[k], rtol=1e-3, atol=1e-3, err_msg=where)
        for k in (4, 5):
            np.testing.assert_allclose(synced[k], alone[k], rtol=1e-4, atol=1e-5, err_msg=where)
        np.testing.assert_allclose(synced[6], alone[6][own], rtol=1e-4, atol=1e-5, err_msg=where)

# Trainers: ranks with parts of a batch follow one process with the whole.
inputs, targets = rng.randn(8 * ranks, 6).astype(np.float32), rng.randn(8 * ranks, 2).astype(np.float32)


def train(store, part, compression=None):
    mx.random.seed(5)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(16, activation="tanh"), gluon.nn.Dense(2))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9}, kvstore=store, compression_params=compression)
    losses = []
    for _ in range(30):
        with autograd.record():
            loss = gluon.loss.L2Loss()(net(nd.array(inputs[part])), nd.array(targets[part]))
        loss.backward()
        trainer.step(len(inputs))
        losses.append(loss.sum())
    return losses


alone = [float(loss.asscalar()) for loss in train("device", slice(None))]
own = slice(8 * rank, 8 * rank + 8)
together = [float(mx.distributed.all_reduce(loss).asscalar()) for loss in train("dist_sync", own)]
np.testing.assert_allclose(together, alone, rtol=1e-5)
for compression in ({"type": "fp16"}, {"type": "2bit", "threshold": 0.2}):
    rough = [float(mx.distributed.all_reduce(loss).asscalar()) for loss in train("dist_async", own, compression)]
    assert rough[-1] < rough[0], rough

sampler = gluon.data.SplitSampler(103, ranks, rank, seed=4)
taken = mx.distributed.all_gather(nd.array(list(sampler), dtype="int64")).asnumpy()
assert len(set(taken)) == len(taken) == 103 // ranks * ranks
print("rank %d agrees" % rank)
