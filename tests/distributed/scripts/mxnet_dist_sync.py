"""In the style of MXNet's examples of distributed training: every worker trains on its part of the data, gradients go through a kvstore."""
import argparse
import random

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd

parser = argparse.ArgumentParser()
parser.add_argument("--data", default=None, help="the folder of Fashion-MNIST; the bundled digits where it is not given")
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--kvstore", default="dist_sync")
parser.add_argument("--hybridize", action="store_true")
args = parser.parse_args()

store = mx.kv.create(args.kvstore)
print("Total number of workers: %d" % store.num_workers)
print("This worker's rank: %d" % store.rank)

batch_size_per_worker = 32
batch_size = batch_size_per_worker * store.num_workers
mx.random.seed(1)


def transform(data, label):
    return nd.transpose(data.astype(np.float32), (2, 0, 1)) / 255, label.astype(np.float32)


class SplitSampler(gluon.data.sampler.Sampler):
    """Splits the dataset into `num_parts` parts and samples from the part with index `part_index`."""

    def __init__(self, length, num_parts=1, part_index=0):
        self.part_len = length // num_parts
        self.start = self.part_len * part_index
        self.end = self.start + self.part_len

    def __iter__(self):
        indices = list(range(self.start, self.end))
        random.shuffle(indices)
        return iter(indices)

    def __len__(self):
        return self.part_len


if args.data:
    train_set = gluon.data.vision.FashionMNIST(root=args.data, train=True, transform=transform)
    length = 4096
else:
    rng = np.random.RandomState(0)
    centres = rng.rand(10, 1, 8, 8)
    labels = rng.randint(0, 10, 2048)
    images = (centres[labels] + rng.randn(2048, 1, 8, 8) * 0.3).astype(np.float32)
    train_set = gluon.data.ArrayDataset(images, labels.astype(np.float32))
    length = 2048
train_data = gluon.data.DataLoader(train_set, batch_size_per_worker, last_batch="discard",
                                   sampler=SplitSampler(length, store.num_workers, store.rank))

net = gluon.nn.HybridSequential()
with net.name_scope():
    net.add(gluon.nn.Conv2D(channels=8, kernel_size=3, activation="relu"), gluon.nn.MaxPool2D(2, 2), gluon.nn.Flatten(),
            gluon.nn.Dense(32, activation="relu"), gluon.nn.Dense(10))
ctx = [mx.cpu()]
net.initialize(mx.init.Xavier(), ctx=ctx)
if args.hybridize:
    net.hybridize()
softmax_cross_entropy = gluon.loss.SoftmaxCrossEntropyLoss()
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.005}, kvstore=store)


def forward_backward(net, data, label):
    with autograd.record():
        losses = [softmax_cross_entropy(net(X), Y) for X, Y in zip(data, label)]
    for l in losses:
        l.backward()
    return sum(l.mean().asscalar() for l in losses)


first = last = None
for epoch in range(args.epochs):
    for batch in train_data:
        data = gluon.utils.split_and_load(batch[0], ctx)
        label = gluon.utils.split_and_load(batch[1], ctx)
        last = forward_backward(net, data, label)
        first = last if first is None else first
        trainer.step(batch_size)
    mx.nd.waitall()
    print("Epoch %d: loss %.4f" % (epoch, last))

assert last < 0.7 * first, (first, last)
total = sum(float(p.data().abs().sum().asscalar()) for p in net.collect_params().values())
everywhere = mx.distributed.all_gather(mx.nd.array([total])).asnumpy()
assert (everywhere == everywhere[0]).all(), everywhere
if store.rank == 0:
    net.save_parameters("/dev/null")
    print("all workers have the same weights")
