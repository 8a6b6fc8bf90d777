"""Trains in many ways and prints what the weights have become; what ranks send by messages and what they read of each other's memory must be the same."""
import hashlib
import sys

import gluino as mx
from gluino import autograd, distributed, gluon, nd

RANK, RANKS = distributed.rank(), distributed.size()


def trained(hybridized, grad_req="write", **options):
    """A digest of the weights after some steps of a network with large, small and unused weights."""
    mx.random.seed(3)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Embedding(3000, 64), gluon.nn.Dense(700, activation="relu"), gluon.nn.BatchNorm(), gluon.nn.Dense(301, use_bias=False), gluon.nn.Dense(3))
    net.initialize(mx.init.Xavier())
    if hybridized:
        net.hybridize()
    net(nd.zeros((2, 10)))
    for p in net.collect_params().values():
        if p.grad_req != "null":
            p.grad_req = grad_req
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01}, kvstore="dist_sync", **options)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    for i in range(6):
        mx.random.seed(100 * i + RANK)
        x, y = nd.random.randint(0, 3000, shape=(8, 10)), nd.random.randint(0, 3, shape=(8,))
        for _ in range(2 if grad_req == "add" else 1):
            with autograd.record():
                loss = loss_of(net(x.astype("float32")), y.astype("float32"))
            loss.backward()
        trainer.step(8 * RANKS)
        if grad_req == "add":
            net.collect_params().zero_grad()
    text = hashlib.sha256()
    for p in net.collect_params().values():
        if p.grad_req == "null":  # statistics of this rank's samples
            continue
        text.update(p.data().asnumpy().tobytes())
    # A gradient belongs to its rank: what one writes there, the others do not see.
    if grad_req == "write":
        grad = net[1].weight.grad()
        before = grad.asnumpy().copy()
        distributed.barrier()
        grad[:] = RANK + 1
        distributed.barrier()
        assert (grad.asnumpy() == RANK + 1).all()
        digests = distributed.all_gather(nd.array([[float(before.sum())]]))
        assert (digests.asnumpy() == digests.asnumpy()[0]).all(), digests
    return text.hexdigest()[:16]


def collectives():
    """Sizes around the borders of chunks and parts, on every dtype."""
    text = hashlib.sha256()
    for n in (0, 1, 7, 2048, 2049, 262143, 262145, 1048577 + RANKS, 2500003):
        for dtype in ("float32", "float16", "int32", "uint8", "float64"):
            mx.random.seed(RANK)
            x = (nd.random.uniform(0, 9, shape=(n,)) if n else nd.zeros((0,))).astype(dtype)
            for how in ("sum", "max", "mean") if dtype.startswith("float") else ("sum", "max"):
                text.update(distributed.all_reduce(x, how).asnumpy().tobytes())
            text.update(distributed.all_gather(x).asnumpy().tobytes())
            text.update(distributed.broadcast(x, RANKS - 1).asnumpy().tobytes())
    return text.hexdigest()[:16]


results = [collectives()]
for h in (False, True):
    results += [trained(h), trained(h, grad_req="add"), trained(h, compression_params={"type": "2bit", "threshold": 0.01}),
                trained(h, compression_params={"type": "fp16"})]
everywhere = distributed.all_gather(nd.array([[int(r, 16) % 100003 for r in results]]))
assert (everywhere.asnumpy() == everywhere.asnumpy()[0]).all(), "ranks differ"
if RANK == 0:
    print("RESULT", *results)
sys.exit(0)
