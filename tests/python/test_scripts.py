"""Short scripts in the style users wrote for MXNet 1.x."""
import logging

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn, rnn


def digits(shared, count):
    """Images and labels of MNIST."""
    folder = shared / "data" / "mnist"
    return gluon.data.vision.MNIST(str(folder), train=True).take(count)


def test_image_classification(shared):
    """gluon.data, transforms, Trainer, metric, hybridize, save and load."""
    transform = gluon.data.vision.transforms.Compose([gluon.data.vision.transforms.ToTensor(), gluon.data.vision.transforms.Normalize(0.13, 0.31)])
    train = gluon.data.DataLoader(digits(shared, 1500).transform_first(transform), batch_size=50, shuffle=True)
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Conv2D(channels=8, kernel_size=5, activation="relu"), nn.MaxPool2D(pool_size=2, strides=2),
                nn.Conv2D(channels=16, kernel_size=3), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(pool_size=2, strides=2),
                nn.Flatten(), nn.Dense(64, activation="relu"), nn.Dropout(0.2), nn.Dense(10))
    ctx = mx.cpu()
    net.initialize(mx.init.Xavier(magnitude=2.24), ctx=ctx)
    net.hybridize()
    np.random.seed(0)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 2e-3})
    metric = mx.metric.Accuracy()
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    for _ in range(3):
        metric.reset()
        for data, label in train:
            data, label = data.as_in_context(ctx), label.as_in_context(ctx)
            with autograd.record():
                output = net(data)
                loss = loss_fn(output, label)
            loss.backward()
            trainer.step(data.shape[0])
            metric.update([label], [output])
    assert metric.get()[0] == "accuracy" and metric.get()[1] > 0.9
    data, _ = next(iter(train))
    want = net(data).asnumpy()
    net.save_parameters("mnist.params")
    net.export("mnist")
    twin = gluon.SymbolBlock.imports("mnist-symbol.json", ["data"], "mnist-0000.params")
    np.testing.assert_allclose(twin(data).asnumpy(), want, rtol=1e-4, atol=1e-5)
    net.load_parameters("mnist.params", ctx=ctx)
    np.testing.assert_array_equal(net(data).asnumpy(), want)


class RNNModel(gluon.Block):
    """A word language model, after the example of MXNet."""

    def __init__(self, vocab_size, num_embed, num_hidden, num_layers, dropout=0.2, tie_weights=True, **kwargs):
        super(RNNModel, self).__init__(**kwargs)
        with self.name_scope():
            self.drop = nn.Dropout(dropout)
            self.encoder = nn.Embedding(vocab_size, num_embed, weight_initializer=mx.init.Uniform(0.1))
            self.rnn = rnn.LSTM(num_hidden, num_layers, dropout=dropout, input_size=num_embed)
            self.decoder = nn.Dense(vocab_size, in_units=num_hidden, params=self.encoder.params) if tie_weights else nn.Dense(vocab_size, in_units=num_hidden)
            self.num_hidden = num_hidden

    def forward(self, inputs, hidden):
        emb = self.drop(self.encoder(inputs))
        output, hidden = self.rnn(emb, hidden)
        output = self.drop(output)
        return self.decoder(output.reshape((-1, self.num_hidden))), hidden

    def begin_state(self, *args, **kwargs):
        return self.rnn.begin_state(*args, **kwargs)


def detach(hidden):
    return [detach(h) for h in hidden] if isinstance(hidden, (tuple, list)) else hidden.detach()


def test_word_language_model(shared):
    text = (shared / "data" / "text" / "tinyshakespeare.txt").read_text()[:30000].lower().split()
    words = {w: i for i, w in enumerate(sorted(set(text)))}
    batch_size, bptt = 8, 10
    ids = np.array([words[w] for w in text])
    data = nd.array(ids[:len(ids) // batch_size * batch_size].reshape(batch_size, -1).T)
    model = RNNModel(len(words), 32, 32, 1)
    model.initialize(mx.init.Xavier())
    model.hybridize()
    trainer = gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": 5.0, "momentum": 0, "wd": 0})
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    totals = []
    for _ in range(2):
        total, count = 0.0, 0
        hidden = model.begin_state(func=mx.nd.zeros, batch_size=batch_size, ctx=mx.cpu())
        for i in range(0, data.shape[0] - bptt - 1, bptt):
            x, target = data[i:i + bptt], data[i + 1:i + 1 + bptt].reshape((-1,))
            hidden = detach(hidden)
            with autograd.record():
                output, hidden = model(x, hidden)
                L = loss(output, target)
            L.backward()
            grads = [p.grad(mx.cpu()) for p in model.collect_params().values()]
            gluon.utils.clip_global_norm(grads, 0.2 * bptt * batch_size)
            trainer.step(bptt * batch_size)
            total += mx.nd.sum(L).asscalar()
            count += L.size
        totals.append(total / count)
    assert totals[1] < totals[0] < np.log(len(words)) + 0.5


def test_dcgan():
    nz, ngf, ndf, batch = 8, 4, 4, 4
    netG = nn.Sequential()
    with netG.name_scope():
        netG.add(nn.Conv2DTranspose(ngf * 4, 4, 1, 0, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
                 nn.Conv2DTranspose(ngf * 2, 4, 2, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
                 nn.Conv2DTranspose(1, 4, 2, 1, use_bias=False), nn.Activation("tanh"))
    netD = nn.Sequential()
    with netD.name_scope():
        netD.add(nn.Conv2D(ndf, 4, 2, 1, use_bias=False), nn.LeakyReLU(0.2), nn.Conv2D(ndf * 2, 4, 2, 1, use_bias=False), nn.BatchNorm(),
                 nn.LeakyReLU(0.2), nn.Conv2D(1, 4, 1, 0, use_bias=False))
    for net in (netG, netD):
        net.initialize(mx.init.Normal(0.02), ctx=mx.cpu())
        net.hybridize()
    trainerG = gluon.Trainer(netG.collect_params(), "adam", {"learning_rate": 0.002, "beta1": 0.5})
    trainerD = gluon.Trainer(netD.collect_params(), "adam", {"learning_rate": 0.002, "beta1": 0.5})
    loss = gluon.loss.SigmoidBinaryCrossEntropyLoss()
    real_label, fake_label = nd.ones((batch,)), nd.zeros((batch,))
    real = nd.random.normal(0.5, 0.1, shape=(batch, 1, 16, 16))
    errors = []
    for _ in range(12):
        noise = mx.nd.random_normal(0, 1, shape=(batch, nz, 1, 1))
        with autograd.record():
            errD_real = loss(netD(real).reshape((-1, 1)), real_label)
            fake = netG(noise)
            errD_fake = loss(netD(fake.detach()).reshape((-1, 1)), fake_label)
            errD = errD_real + errD_fake
        errD.backward()
        trainerD.step(batch)
        with autograd.record():
            errG = loss(netD(netG(noise)).reshape((-1, 1)), real_label)
        errG.backward()
        trainerG.step(batch)
        errors.append(nd.mean(errD).asscalar())
    assert fake.shape == (batch, 1, 16, 16)
    assert errors[-1] < errors[0]  # the discriminator learns to tell the two apart


class ToySSD(gluon.Block):
    """Anchors, classes and boxes at two scales."""

    def __init__(self, num_classes, **kwargs):
        super().__init__(**kwargs)
        self.sizes, self.ratios, self.num_classes = [[0.2, 0.272], [0.37, 0.447]], [[1, 2, 0.5]] * 2, num_classes
        anchors = len(self.sizes[0]) + len(self.ratios[0]) - 1
        with self.name_scope():
            self.body = nn.HybridSequential()
            for filters in (8, 16):
                self.body.add(nn.Conv2D(filters, kernel_size=3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(2))
            self.down = nn.HybridSequential()
            self.down.add(nn.Conv2D(16, kernel_size=3, padding=1, activation="relu"), nn.MaxPool2D(2))
            for i in range(2):
                setattr(self, f"class{i}", nn.Conv2D(anchors * (num_classes + 1), kernel_size=3, padding=1))
                setattr(self, f"box{i}", nn.Conv2D(anchors * 4, kernel_size=3, padding=1))

    def forward(self, x):
        anchors, classes, boxes = [], [], []
        x = self.body(x)
        for i in range(2):
            anchors.append(nd.contrib.MultiBoxPrior(x, sizes=self.sizes[i], ratios=self.ratios[i]))
            classes.append(nd.flatten(nd.transpose(getattr(self, f"class{i}")(x), axes=(0, 2, 3, 1))))
            boxes.append(nd.flatten(nd.transpose(getattr(self, f"box{i}")(x), axes=(0, 2, 3, 1))))
            x = self.down(x)
        anchors = nd.concat(*[nd.reshape(a, shape=(1, -1, 4)) for a in anchors], dim=1)
        return anchors, nd.reshape(nd.concat(*classes, dim=1), shape=(0, -1, self.num_classes + 1)), nd.concat(*boxes, dim=1)


def test_ssd_anchors():
    net = ToySSD(1)
    net.initialize(mx.init.Xavier(magnitude=2))
    net.hybridize()
    x = nd.random.uniform(shape=(2, 3, 32, 32))
    anchors, classes, boxes = net(x)
    count = 4 * (8 * 8 + 4 * 4)
    assert anchors.shape == (1, count, 4) and classes.shape == (2, count, 2) and boxes.shape == (2, count * 4)
    # Targets by overlap with the true box, as the tutorial computes them with box_iou.
    truth = nd.array([[0.1, 0.1, 0.4, 0.4]])
    iou = nd.contrib.box_iou(anchors[0], truth)
    target = (iou > 0.3).reshape((1, -1)).broadcast_to((2, count))
    assert target.sum().asscalar() > 0
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    loss_fn, losses = gluon.loss.SoftmaxCrossEntropyLoss(), []
    for _ in range(5):
        with autograd.record():
            _, classes, boxes = net(x)
            loss = loss_fn(classes, target) + gluon.loss.L1Loss()(boxes, nd.zeros_like(boxes))
        loss.backward()
        trainer.step(2)
        losses.append(loss.mean().asscalar())
    assert losses[-1] < losses[0]
    found = nd.contrib.MultiBoxDetection(nd.softmax(classes, axis=2).transpose((0, 2, 1)), boxes, anchors, nms_threshold=0.5)
    assert found.shape == (2, count, 6)


def test_ssd_learns_to_find_squares():
    """Targets for prior boxes with hard negatives, two losses, detection."""
    rng = np.random.RandomState(2)

    def batch(size):
        images, labels = np.zeros((size, 1, 16, 16), "float32"), np.full((size, 2, 5), -1, "float32")
        for i in range(size):
            x, y = rng.randint(0, 8, 2)
            images[i, 0, y:y + 8, x:x + 8] = 1
            labels[i, 0] = [0, x / 16, y / 16, (x + 8) / 16, (y + 8) / 16]
        return nd.array(images), nd.array(labels)

    class SSD(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.body = nn.HybridSequential()
                self.body.add(nn.Conv2D(16, 3, padding=1, activation="relu"), nn.MaxPool2D(), nn.Conv2D(16, 3, padding=1, activation="relu"), nn.MaxPool2D())
                self.classes, self.offsets = nn.Conv2D(2 * 2, 3, padding=1), nn.Conv2D(2 * 4, 3, padding=1)

        def hybrid_forward(self, F, x):
            features = self.body(x)
            anchors = F.contrib.MultiBoxPrior(features, sizes=(0.5, 0.3))
            classes = F.reshape(F.transpose(self.classes(features), axes=(0, 2, 3, 1)), shape=(0, -1, 2))
            offsets = F.flatten(F.transpose(self.offsets(features), axes=(0, 2, 3, 1)))
            return anchors, classes, offsets
    net = SSD()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    class_loss, box_loss = gluon.loss.SoftmaxCrossEntropyLoss(), gluon.loss.HuberLoss()
    for _ in range(60):
        x, label = batch(16)
        with autograd.record():
            anchors, classes, offsets = net(x)
            with autograd.pause():
                targets, mask, wanted = nd.contrib.MultiBoxTarget(anchors, label, classes.transpose((0, 2, 1)), negative_mining_ratio=3,
                                                                  negative_mining_thresh=0.5)
            counted = (wanted >= 0).expand_dims(-1)
            loss = class_loss(classes, nd.maximum(wanted, 0), counted) + box_loss(offsets * mask, targets)
        loss.backward()
        trainer.step(16)
    x, label = batch(20)
    anchors, classes, offsets = net(x)
    found = nd.contrib.MultiBoxDetection(nd.softmax(classes, axis=2).transpose((0, 2, 1)), offsets, anchors, nms_threshold=0.3)
    overlaps = nd.contrib.box_iou(found[:, 0, 2:], label[:, 0, 1:]).asnumpy().diagonal()
    assert np.median(overlaps) > 0.7 and (found[:, 0, 0].asnumpy() == 0).mean() > 0.9


def test_targets_of_prior_boxes():
    """Each object has its best box, whatever the threshold; the rest is background or is left out."""
    anchors = nd.array([[[0, 0, 0.5, 0.5], [0.4, 0.4, 1, 1], [0, 0.5, 0.5, 1], [0.5, 0, 1, 0.5]]])
    label = nd.array([[[1, 0.05, 0.0, 0.55, 0.5], [-1, 0, 0, 0, 0]], [[-1, 0, 0, 0, 0], [-1, 0, 0, 0, 0]]])
    scores = nd.zeros((2, 3, 4))
    scores[0, 0] = nd.array([0, 5, 1, 3])
    offsets, mask, classes = nd.contrib.MultiBoxTarget(anchors, label, scores, overlap_threshold=0.9)
    assert classes.asnumpy().tolist() == [[2, 0, 0, 0], [-1, -1, -1, -1]] and mask.asnumpy()[0].tolist() == [1] * 4 + [0] * 12
    np.testing.assert_allclose(offsets.asnumpy()[0, :4], [1, 0, 0, 0], atol=1e-5)
    mined = nd.contrib.MultiBoxTarget(anchors, label, scores, negative_mining_ratio=1)[2]
    assert mined.asnumpy()[0].tolist() == [2, -1, 0, -1], "the box that is least taken for background"


def test_module_fit_on_an_mlp(caplog):
    """The symbolic interface of before Gluon: Variable, SoftmaxOutput, Module, callbacks, checkpoints."""
    np.random.seed(3)
    x = np.random.normal(size=(400, 10)).astype("float32")
    y = (x[:, :5].sum(axis=1) > x[:, 5:].sum(axis=1)).astype("float32")
    train = mx.io.NDArrayIter(x[:300], y[:300], batch_size=20, shuffle=True)
    val = mx.io.NDArrayIter(x[300:], y[300:], batch_size=20)
    data = mx.sym.Variable("data")
    fc1 = mx.symbol.FullyConnected(data, name="fc1", num_hidden=16)
    act1 = mx.symbol.Activation(fc1, name="relu1", act_type="relu")
    fc2 = mx.symbol.FullyConnected(act1, name="fc2", num_hidden=2)
    mlp = mx.symbol.SoftmaxOutput(fc2, name="softmax")
    assert mlp.list_arguments() == ["data", "fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias", "softmax_label"]
    model = mx.mod.Module(symbol=mlp, context=mx.cpu())
    with caplog.at_level(logging.INFO):
        model.fit(train, eval_data=val, optimizer="sgd", optimizer_params={"learning_rate": 0.1, "momentum": 0.9}, eval_metric="acc", num_epoch=5,
                  initializer=mx.init.Xavier(), batch_end_callback=mx.callback.Speedometer(20, 5), epoch_end_callback=mx.callback.do_checkpoint("mlp", 5))
    assert "Validation-accuracy" in caplog.text and "Speed:" in caplog.text
    score = dict(model.score(val, ["acc", "ce"]))
    assert score["accuracy"] > 0.9
    loaded = mx.mod.Module.load("mlp", 5)
    loaded.bind(data_shapes=val.provide_data, label_shapes=val.provide_label, for_training=False)
    loaded.init_params()
    np.testing.assert_allclose(loaded.predict(val).asnumpy(), model.predict(val).asnumpy(), rtol=1e-5, atol=1e-6)
    symbol, args, aux = mx.model.load_checkpoint("mlp", 5)
    executor = symbol.simple_bind(mx.cpu(), data=(2, 10))
    executor.copy_params_from(args, aux)
    executor.forward(data=nd.array(x[300:302]))
    np.testing.assert_allclose(executor.outputs[0].asnumpy(), model.predict(val).asnumpy()[:2], rtol=1e-5, atol=1e-6)


def test_multiple_devices_and_kvstore():
    contexts = [mx.cpu(0), mx.cpu(1)]
    net = nn.Dense(1, in_units=2)
    net.initialize(mx.init.One(), ctx=contexts)
    x = nd.array([[1, 2], [3, 4], [5, 6], [7, 8]])
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0}, kvstore="device")
    with autograd.record():
        losses = [net(part).sum() for part in gluon.utils.split_and_load(x, contexts)]
    autograd.backward(losses)
    trainer.step(1)
    for ctx in contexts:
        np.testing.assert_allclose(net.weight.data(ctx).asnumpy(), [[1 - 16, 1 - 20]])
    store = mx.kv.create("local")
    store.init(3, nd.ones((2, 2)))
    store.push(3, [nd.ones((2, 2)) * 2, nd.ones((2, 2)) * 3])
    out = nd.zeros((2, 2))
    store.pull(3, out=out)
    assert (out.asnumpy() == 5).all()


def test_rates_of_several_contexts_follow_one_count():
    """A step updates every copy of a parameter, and counts once."""
    weight = gluon.Parameter("weight", shape=(3,))
    weight.initialize(ctx=[mx.cpu(0), mx.cpu(1)], init="zeros")
    schedule = mx.lr_scheduler.FactorScheduler(2, factor=0.5, base_lr=1.0)
    trainer = gluon.Trainer([weight], "sgd", {"learning_rate": 1.0, "lr_scheduler": schedule})
    rates = []
    for _ in range(5):
        with autograd.record():
            for copy in weight.list_data():
                (copy + 1).backward()
        trainer.step(1)
        rates.append(trainer.learning_rate)
    assert rates == [1, 1, 0.5, 0.5, 0.25]
    assert (weight.data(mx.cpu(1)).asnumpy() == -2 * sum(rates)).all()


def test_mnist_from_files(shared):
    """mx.test_utils.get_mnist and its iterators, with Module."""
    folder = str(shared / "data" / "mnist")
    arrays = mx.test_utils.get_mnist(folder)
    assert arrays["train_data"].shape[1:] == (1, 28, 28) and arrays["test_label"].shape == arrays["test_data"].shape[:1]
    train, val = mx.test_utils.get_mnist_iterator(100, (784,), num_parts=20, path=folder)
    assert train.provide_data[0].shape == (100, 784)
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=10), name="softmax")
    module = mx.mod.Module(net)
    module.fit(train, num_epoch=3, optimizer_params={"learning_rate": 0.2})
    assert module.score(val, "acc")[0][1] > 0.75


def test_custom_training_with_a_cell():
    """A sequence through an unrolled cell, as many scripts had it."""
    cell = rnn.SequentialRNNCell()
    cell.add(rnn.LSTMCell(hidden_size=8))
    cell.add(rnn.GRUCell(hidden_size=4))
    cell.initialize(mx.init.Xavier())
    x = nd.random.normal(shape=(3, 5, 6))
    outputs, states = cell.unroll(5, x, layout="NTC", merge_outputs=True)
    assert outputs.shape == (3, 5, 4) and len(states) == 3
    layer = rnn.LSTM(7, bidirectional=True, layout="NTC")
    layer.initialize()
    want = layer(x).asnumpy()
    layer.hybridize()
    np.testing.assert_allclose(layer(x).asnumpy(), want, rtol=1e-5, atol=1e-6)
    assert layer(nd.random.normal(shape=(2, 5, 6))).shape == (2, 5, 14)
    assert layer.stats()["traces"] == 1


def test_estimator_with_handlers(caplog):
    """contrib.estimator: metrics, validation, checkpoints, resuming, early stopping, a batch processor."""
    from mxnet.gluon.contrib import estimator as est
    rng = np.random.RandomState(0)
    x = rng.randn(120, 4).astype("float32")
    y = (x[:, 0] + x[:, 1] > 0).astype("float32")
    train, val = (gluon.data.DataLoader(gluon.data.ArrayDataset(x[part], y[part]), 20) for part in (slice(0, 80), slice(80, 120)))

    def make(**kwargs):
        net = nn.Dense(2)
        trainer = None
        net.initialize(mx.init.Xavier())
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
        return est.Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), train_metrics=mx.metric.Accuracy(), trainer=trainer, context=mx.cpu(), **kwargs)
    first = make()
    accuracy = first.val_metrics[0]
    checkpoints = est.CheckpointHandler("ckpt", "net", monitor=accuracy, save_best=True, max_checkpoints=2)
    first.logger.addHandler(caplog.handler)
    first.fit(train, val, epochs=6, event_handlers=[checkpoints, est.LoggingHandler(log_interval=2)])
    assert accuracy.get()[0] == "validation accuracy" and accuracy.get()[1] > 0.85 and "[Batch 2]" in caplog.text
    import os
    assert sorted(os.listdir("ckpt")) == ["net-best.params", "net-best.states", "net-epoch4batch20.params", "net-epoch4batch20.states",
                                          "net-epoch5batch24.params", "net-epoch5batch24.states"]
    resumed = make()
    with pytest.raises(AssertionError, match="batch_period"):
        resumed.fit(train, val, batches=1, event_handlers=[est.CheckpointHandler("ckpt", "net", resume_from_checkpoint=True)])
    with pytest.raises(ValueError, match="maximum number"):
        resumed.fit(train, val, epochs=6, event_handlers=[est.CheckpointHandler("ckpt", "net", resume_from_checkpoint=True)])
    resumed.fit(train, val, epochs=7, event_handlers=[est.CheckpointHandler("ckpt", "net", resume_from_checkpoint=True, max_checkpoints=1)])
    assert resumed.val_metrics[0].get()[1] > 0.85 and resumed.max_epoch == 1 and "net-epoch6batch28.params" in os.listdir("ckpt")

    class Counting(est.BatchProcessor):
        count = 0

        def fit_batch(self, estimator, train_batch, batch_axis=0):
            Counting.count += 1
            return super().fit_batch(estimator, train_batch, batch_axis)
    stopped = make(batch_processor=Counting())
    stopped.fit(train, val, epochs=100, event_handlers=[est.EarlyStoppingHandler(stopped.train_metrics[0], min_delta=0.05, patience=2)])
    assert 8 <= Counting.count < 200

    class Third(est.BatchEnd):
        seen = 0

        def batch_end(self, estimator, *args, **kwargs):
            self.seen += 1
            return self.seen == 3
    count, third = Counting.count, Third()
    stopped.fit(train, epochs=1, event_handlers=third)  # a handler ends the epoch, and the training is through with its epochs
    assert Counting.count == count + 3 and third.seen == 3
    with pytest.raises(ValueError, match="known"):
        stopped.fit(train, epochs=1, event_handlers=[est.LoggingHandler(metrics=[mx.metric.Accuracy()])])
    for wrong in (lambda: stopped.fit(train), lambda: stopped.fit(train, epochs=1, batches=1), lambda: stopped.fit([1], epochs=1),
                  lambda: est.EarlyStoppingHandler("acc"), lambda: est.CheckpointHandler("ckpt", save_best=True), lambda: make(batch_processor=object()),
                  lambda: est.LoggingHandler(log_interval="batch"), lambda: stopped.fit(train, epochs=1, event_handlers=["log"])):
        with pytest.raises(ValueError):
            wrong()
    plain = est.Estimator(nn.Dense(2), gluon.loss.L2Loss())
    assert [m.name for m in plain.train_metrics] == ["training l2loss"] and [m.name for m in plain.val_metrics] == ["validation l2loss"]
    assert plain.trainer.learning_rate == 0.001


def test_the_zoo_has_the_published_sizes():
    """Parameters of all models as MXNet's documentation lists them; running averages are counted."""
    published = {
        "alexnet": 61100840, "densenet121": 8062504, "densenet161": 28900936, "densenet169": 14307880, "densenet201": 20242984, "inceptionv3": 23869000,
        "mobilenet0.25": 475544, "mobilenet0.5": 1342536, "mobilenet0.75": 2601976, "mobilenet1.0": 4253864, "mobilenetv2_0.25": 1526856,
        "mobilenetv2_0.5": 1983104, "mobilenetv2_0.75": 2653864, "mobilenetv2_1.0": 3539136, "resnet18_v1": 11699112, "resnet34_v1": 21814696,
        "resnet50_v1": 25629032, "resnet101_v1": 44695144, "resnet152_v1": 60404072, "resnet18_v2": 11695796, "resnet34_v2": 21811380,
        "resnet50_v2": 25595060, "resnet101_v2": 44639412, "resnet152_v2": 60329140, "squeezenet1.0": 1248424, "squeezenet1.1": 1235496,
        "vgg11": 132863336, "vgg11_bn": 132874344, "vgg13": 133047848, "vgg13_bn": 133059624, "vgg16": 138357544, "vgg16_bn": 138374440,
        "vgg19": 143667240, "vgg19_bn": 143689256}
    for name, size in published.items():
        symbol = gluon.model_zoo.vision.get_model(name)(mx.sym.var("data"))
        side = 299 if name == "inceptionv3" else 224
        arguments, outputs, states = symbol.infer_shape(data=(1, 3, side, side))
        assert sum(int(np.prod(shape)) for shape in arguments + states) - 3 * side * side == size, name
        assert outputs == [(1, 1000)]
    assert gluon.model_zoo.vision.inception_v3(classes=10)(mx.sym.var("data")).infer_shape(data=(1, 3, 299, 299))[1] == [(1, 10)]
