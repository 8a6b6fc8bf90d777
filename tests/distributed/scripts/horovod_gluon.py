"""In the style of Horovod's MXNet example: the few lines that make a script of one process a distributed one."""
import argparse
import logging

import horovod.mxnet as hvd
import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--momentum", type=float, default=0.9)
parser.add_argument("--optimizer-instead-of-trainer", action="store_true")
args = parser.parse_args()
logging.basicConfig(level=logging.INFO)

hvd.init()
context = mx.cpu(0) if hvd.local_rank() >= 0 else None
num_workers = hvd.size()
mx.random.seed(100 + hvd.rank())  # each begins with weights of its own: rank 0's count

rng = np.random.RandomState(0)
labels = rng.randint(0, 10, 2048)
images = (rng.rand(10, 1, 8, 8)[labels] + rng.randn(2048, 1, 8, 8) * 0.3).astype(np.float32)
part = slice(hvd.rank(), None, num_workers)
train_iter = mx.io.NDArrayIter(images[part], labels[part].astype(np.float32), args.batch_size, shuffle=False, last_batch_handle="discard")

net = gluon.nn.HybridSequential(prefix="net_")
with net.name_scope():
    net.add(gluon.nn.Conv2D(8, 3, activation="relu"), gluon.nn.MaxPool2D(2, 2), gluon.nn.Flatten(), gluon.nn.Dense(32, activation="relu"),
            gluon.nn.Dense(10))
net.cast("float32")
net.initialize(mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2), ctx=context)
net.hybridize()

params = net.collect_params()
hvd.broadcast_parameters(params, root_rank=0)
optimizer_params = {"momentum": args.momentum, "learning_rate": args.lr * hvd.size()}
opt = mx.optimizer.create("sgd", **optimizer_params)
if args.optimizer_instead_of_trainer:
    trainer = gluon.Trainer(params, hvd.DistributedOptimizer(opt), kvstore=None)
else:
    trainer = hvd.DistributedTrainer(params, opt)

loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
metric = mx.metric.Accuracy()
for epoch in range(args.epochs):
    train_iter.reset()
    metric.reset()
    for nbatch, batch in enumerate(train_iter, start=1):
        data, label = batch.data[0].as_in_context(context), batch.label[0].as_in_context(context)
        with autograd.record():
            output = net(data)
            loss = loss_fn(output, label)
        loss.backward()
        trainer.step(args.batch_size)
        metric.update([label], [output])
    _, acc = metric.get()
    acc = float(hvd.allreduce(mx.nd.array([acc]), average=True, name="acc").asscalar())
    if hvd.rank() == 0:
        logging.info("Epoch[%d] Train: accuracy=%f", epoch, acc)

assert acc > 0.7, acc
totals = hvd.allgather(mx.nd.array([[float(p.data().abs().sum().asscalar()) for p in params.values()]])).asnumpy()
assert totals.shape[0] == hvd.size() and (totals == totals[0]).all(), totals
assert hvd.broadcast_object({"rank": hvd.rank()}, 0) == {"rank": 0}
assert [o["rank"] for o in hvd.allgather_object({"rank": hvd.rank()})] == list(range(hvd.size()))
rows = hvd.allgather(mx.nd.ones((hvd.rank() + 1, 2)))
assert rows.shape == (hvd.size() * (hvd.size() + 1) // 2, 2)
print("rank %d agrees" % hvd.rank())
