"""Scripts of our own in the style of a textbook's chapters, with arrays of mx.np; what each learns is checked, and that compiling changes nothing."""
import math

import numpy as onp
import pytest

import gluino as mx
from gluino import autograd, gluon, init, np, npx
from gluino.gluon import nn, rnn


@pytest.fixture(autouse=True)
def numpy_mode():
    npx.set_np()
    mx.random.seed(3)
    onp.random.seed(3)
    yield
    npx.reset_np()


def _agree(net, *args):
    """The compiled network gives what the eager one gave."""
    before = net(*args)
    net.hybridize()
    after = net(*args)
    for a, b in zip(before if isinstance(before, (list, tuple)) else [before], after if isinstance(after, (list, tuple)) else [after]):
        if isinstance(a, np.ndarray):
            onp.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-3, atol=1e-5)


def test_tensors_and_gradients():
    x = np.arange(12).reshape(3, 4)
    assert x.shape == (3, 4) and x.size == 12 and (x[-1] == np.array([8, 9, 10, 11])).all() and x[1:3].sum() == 60
    x[0:2, :] = 12
    before = id(x)
    x += 1
    assert id(x) == before and float(x.sum()) == 13 * 8 + 9 + 10 + 11 + 12
    a, b = np.arange(3).reshape(3, 1), np.arange(2).reshape(1, 2)
    assert (a + b).tolist() == [[0, 1], [1, 2], [2, 3]] and np.concatenate([a, a], axis=1).shape == (3, 2)
    v = np.arange(4.0)
    v.attach_grad()
    with autograd.record():
        y = 2 * np.dot(v, v)
    y.backward()
    assert (v.grad == 4 * v).all()

    def doubled(a):  # control flow that depends on values
        b = a * 2
        while np.linalg.norm(b) < 1000:
            b = b * 2
        return b if b.sum() > 0 else 100 * b
    a = np.random.normal()
    a.attach_grad()
    with autograd.record():
        d = doubled(a)
    d.backward()
    assert abs(float(a.grad - d / a)) < 1e-2 * abs(float(a.grad))


def test_linear_regression_from_scratch():
    true_w, true_b = np.array([2, -3.4]), 4.2
    X = np.random.normal(0, 1, (400, 2))
    y = np.dot(X, true_w) + true_b + np.random.normal(0, 0.01, (400,))
    w, b = np.random.normal(0, 0.01, (2, 1)), np.zeros(1)
    for p in (w, b):
        p.attach_grad()
    for _ in range(3):
        for i in range(0, 400, 10):
            with autograd.record():
                loss = (np.dot(X[i:i + 10], w) + b - y[i:i + 10].reshape(-1, 1)) ** 2 / 2
            loss.backward()
            for p in (w, b):
                p[:] = p - 0.05 * p.grad / 10
    assert float(np.abs(w.reshape(-1) - true_w).max()) < 0.05 and abs(float(b - true_b)) < 0.05


def test_perceptron_with_dropout_and_weight_decay():
    X = np.random.normal(size=(256, 20))
    y = (X[:, :3].sum(axis=1) > 0).astype("int32")
    net = nn.Sequential()
    net.add(nn.Dense(32, activation="relu"), nn.Dropout(0.1), nn.Dense(2))
    net.initialize(init.Normal(sigma=0.1))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5, "wd": 1e-3})
    net.collect_params(".*bias").setattr("wd_mult", 0)
    loss, batches = gluon.loss.SoftmaxCrossEntropyLoss(), gluon.data.DataLoader(gluon.data.ArrayDataset(X, y), 64, shuffle=True)
    for _ in range(12):
        for features, labels in batches:
            with autograd.record():
                value = loss(net(features), labels)
            value.backward()
            trainer.step(features.shape[0])
    assert float((net(X).argmax(axis=1) == y).astype("float32").mean()) > 0.9


class Residual(nn.HybridBlock):
    def __init__(self, channels, use_1x1=False, strides=1):
        super().__init__()
        self.conv1 = nn.Conv2D(channels, kernel_size=3, padding=1, strides=strides)
        self.conv2 = nn.Conv2D(channels, kernel_size=3, padding=1)
        self.conv3 = nn.Conv2D(channels, kernel_size=1, strides=strides) if use_1x1 else None
        self.bn1, self.bn2 = nn.BatchNorm(), nn.BatchNorm()

    def hybrid_forward(self, F, x):
        y = F.npx.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.npx.relu(y + (self.conv3(x) if self.conv3 else x))


def test_residual_networks():
    images = np.random.uniform(size=(32, 1, 12, 12))
    labels = np.array([i % 2 for i in range(32)], dtype="int32")
    images[1::2, :, :6] += 1
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), Residual(4), Residual(8, True, 2), nn.GlobalAvgPool2D(), nn.Dense(2))
    net.initialize(init.Xavier())
    net.hybridize()
    trainer, loss = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}), gluon.loss.SoftmaxCrossEntropyLoss()
    for _ in range(8):
        with autograd.record():
            value = loss(net(images), labels)
        value.backward()
        trainer.step(32)
    assert float(value.mean()) < 0.3


def test_a_recurrent_network_that_carries_its_state():
    text = "the time traveller smiled " * 20
    letters = sorted(set(text))
    corpus = np.array([letters.index(c) for c in text], dtype="int32")
    cell, steps, batch = rnn.GRU(32), 8, 4
    dense, loss = nn.Dense(len(letters)), gluon.loss.SoftmaxCrossEntropyLoss()
    cell.initialize(init.Xavier()), dense.initialize(init.Xavier())
    trainer = gluon.Trainer({**dict(cell.collect_params().items()), **dict(dense.collect_params().items())}, "adam", {"learning_rate": 0.02})
    rows = corpus[:len(text) // batch * batch].reshape(batch, -1)
    losses = []
    for _ in range(6):
        state, total = cell.begin_state(batch_size=batch), 0.0
        for i in range(0, rows.shape[1] - steps - 1, steps):
            X, Y = rows[:, i:i + steps], rows[:, i + 1:i + steps + 1]
            for s in state:
                s.detach()
            with autograd.record():
                out, state = cell(npx.one_hot(X.T, len(letters)), state)
                value = loss(dense(out.reshape(-1, out.shape[-1])), Y.T.reshape(-1)).mean()
            value.backward()
            gluon.utils.clip_global_norm([p.grad() for p in cell.collect_params().values()], 1)
            trainer.step(1)
            total += float(value)
        losses.append(math.exp(total * steps / rows.shape[1]))
    assert losses[-1] < 0.5 * losses[0]


class Attention(nn.HybridBlock):
    """Several heads of scaled products, with lengths."""

    def __init__(self, units, heads):
        super().__init__()
        self._heads, self._units = heads, units
        self.query, self.key, self.value, self.out = (nn.Dense(units, use_bias=False, flatten=False) for _ in range(4))

    def _apart(self, F, x):
        x = F.np.transpose(F.npx.reshape(x, (-2, -2, self._heads, -1)), (0, 2, 1, 3))
        return F.npx.reshape(x, (-1, -2, -2), reverse=True)

    def hybrid_forward(self, F, q, k, v, lengths):
        q, k, v = (self._apart(F, layer(x)) for layer, x in ((self.query, q), (self.key, k), (self.value, v)))
        scores = F.npx.batch_dot(q, k, transpose_b=True) / math.sqrt(self._units / self._heads)
        lengths = F.np.expand_dims(F.np.repeat(lengths, self._heads, axis=0), 1) + F.np.sum(scores * 0, axis=-1)  # of every query
        mixed = F.npx.batch_dot(F.npx.softmax(scores, lengths, axis=-1, use_length=True), v)
        return self.out(F.npx.reshape(F.np.transpose(F.npx.reshape(mixed, (-6, -1, self._heads, -2, -2)), (0, 2, 1, 3)), (-2, -2, -1)))


class Encoder(nn.HybridBlock):
    def __init__(self, words, units, heads, layers):
        super().__init__()
        self.embedding, self.segments = nn.Embedding(words, units), nn.Embedding(2, units)
        self.positions = self.params.get("positions", shape=(1, 16, units), init=init.Normal(0.1))
        self._layers = layers
        for i in range(layers):
            setattr(self, f"attention{i}", Attention(units, heads))
            setattr(self, f"norm{i}", nn.LayerNorm())
            setattr(self, f"wide{i}", nn.Dense(2 * units, flatten=False, activation="relu"))
            setattr(self, f"narrow{i}", nn.Dense(units, flatten=False))

    def hybrid_forward(self, F, tokens, segments, lengths, positions):
        x = self.embedding(tokens) + self.segments(segments) + positions
        for i in range(self._layers):
            x = getattr(self, f"norm{i}")(x + getattr(self, f"attention{i}")(x, x, x, lengths))
            x = x + getattr(self, f"narrow{i}")(getattr(self, f"wide{i}")(x))
        return x


class Pretraining(nn.HybridBlock):
    """Words behind a mask, and whether one sentence follows another."""

    def __init__(self, words, units):
        super().__init__()
        self.encoder = Encoder(words, units, 2, 1)
        self.words, self.follows = nn.Dense(words, flatten=False), nn.Dense(2)

    def hybrid_forward(self, F, tokens, segments, lengths, places):
        x = self.encoder(tokens, segments, lengths)
        picked = F.npx.batch_dot(F.npx.one_hot(places, 16), x)
        return self.words(picked), self.follows(F.np.squeeze(F.npx.slice(x, begin=(None, 0), end=(None, 1)), axis=1))


def test_pretraining_with_masked_words():
    rng, words, batch = onp.random.RandomState(0), 20, 16
    net = Pretraining(words, 16)
    net.initialize(init.Xavier())
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    start = rng.randint(0, 10, (batch, 1))
    tokens = (start + onp.arange(16)) % 17 + 2  # every word follows from the one before
    follows = rng.randint(0, 2, batch)
    tokens[follows == 0, 8:] = tokens[follows == 0, 8:][:, ::-1]
    places = onp.stack([rng.permutation(15)[:2] + 1 for _ in range(batch)])
    masked = tokens.copy()
    onp.put_along_axis(masked, places, 1, axis=1)
    args = (np.array(masked), np.array((onp.arange(16) >= 8).astype("int32")[None].repeat(batch, 0)), np.full((batch,), 16.0), np.array(places))
    targets = np.array(onp.take_along_axis(tokens, places, axis=1))
    _agree(net, *args)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02})
    values = []
    for _ in range(30):
        with autograd.record():
            scores, next_scores = net(*args)
            value = loss(scores.reshape(-1, words), targets.reshape(-1)).mean() + loss(next_scores, np.array(follows)).mean()
        value.backward()
        trainer.step(1)
        values.append(float(value))
    assert values[-1] < 0.4 * values[0]


def test_translation_with_attention():
    """A decoder that looks back at what the encoder saw learns to copy a sequence backwards."""
    rng, words, length = onp.random.RandomState(1), 8, 5
    embed, encode, decode, attend, out = nn.Embedding(words, 16), rnn.GRU(16), rnn.GRU(16), Attention(16, 1), nn.Dense(words, flatten=False)
    blocks = (embed, encode, decode, attend, out)
    for block in blocks:
        block.initialize(init.Xavier())
    X = rng.randint(1, words, (32, length))
    Y = X[:, ::-1]
    begin = onp.concatenate([onp.zeros((32, 1), int), Y[:, :-1]], axis=1)
    lengths, loss = np.full((32,), float(length)), gluon.loss.SoftmaxCrossEntropyLoss()
    X, Y, begin = np.array(X), np.array(Y.copy()), np.array(begin)
    embed(X)
    trainer, values = None, []
    for _ in range(40):
        with autograd.record():
            memory, state = encode(np.swapaxes(embed(X), 0, 1), encode.begin_state(batch_size=32))
            steps, _ = decode(np.swapaxes(embed(begin), 0, 1), state)
            memory, steps = np.swapaxes(memory, 0, 1), np.swapaxes(steps, 0, 1)
            scores = out(np.concatenate([steps, attend(steps, memory, memory, lengths)], axis=-1))
            value = loss(scores, Y).mean()
        trainer = trainer or gluon.Trainer([p for b in blocks for p in b.collect_params().values()], "adam", {"learning_rate": 0.02})
        value.backward()
        trainer.step(1)
        values.append(float(value))
    assert values[-1] < 0.5 * values[0]


class Factors(nn.HybridBlock):
    """Users and items as rows of tables, of which a batch touches few."""

    def __init__(self, users, items, units):
        super().__init__()
        self.users, self.items = nn.Embedding(users, units, sparse_grad=True), nn.Embedding(items, units, sparse_grad=True)
        self.user_bias, self.item_bias = nn.Embedding(users, 1, sparse_grad=True), nn.Embedding(items, 1, sparse_grad=True)

    def hybrid_forward(self, F, user, item):
        return (self.users(user) * self.items(item)).sum(axis=-1) + F.np.squeeze(self.user_bias(user), -1) + F.np.squeeze(self.item_bias(item), -1)


@pytest.mark.parametrize("hybridized", (False, True))
def test_recommendations_from_sparse_tables(hybridized):
    rng = onp.random.RandomState(0)
    truth = rng.randn(50, 3) @ rng.randn(3, 40)
    user, item = rng.randint(0, 45, 600), rng.randint(0, 40, 600)
    net = Factors(50, 40, 4)
    net.initialize(init.Normal(0.3))
    if hybridized:
        net.hybridize()
    trainer, loss, values = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05}), gluon.loss.L2Loss(), []
    first = net.users.weight.data().asnumpy()
    for _ in range(12):
        for i in range(0, 600, 100):
            u, v = np.array(user[i:i + 100]), np.array(item[i:i + 100])
            with autograd.record():
                value = loss(net(u, v), np.array(truth[user[i:i + 100], item[i:i + 100]]))
            value.backward()
            assert net.users.weight.grad().stype == "row_sparse"
            trainer.step(100)
        values.append(float(value.mean()))
    assert values[-1] < 0.3 * values[0]
    assert (net.users.weight.data().asnumpy()[45:] == first[45:]).all(), "users who rated nothing stay as they were"


def test_adversaries():
    A, b = onp.array([[1, 2], [-0.1, 0.5]]), onp.array([1, 2])
    data = np.array(onp.random.normal(size=(256, 2)) @ A + b)
    made_by, told_by = nn.HybridSequential(), nn.HybridSequential()
    made_by.add(nn.Dense(2))
    told_by.add(nn.Dense(5, activation="tanh"), nn.Dense(3, activation="tanh"), nn.Dense(1))
    loss = gluon.loss.SigmoidBCELoss()
    for net in (made_by, told_by):
        net.initialize(init.Normal(0.02), force_reinit=True)
        net.hybridize()
    trainers = [gluon.Trainer(net.collect_params(), "adam", {"learning_rate": rate}) for net, rate in ((made_by, 0.05), (told_by, 0.05))]
    ones, zeros = np.ones((64,)), np.zeros((64,))
    for _ in range(20):
        for i in range(0, 256, 64):
            X, Z = data[i:i + 64], np.random.normal(0, 1, (64, 2))
            with autograd.record():
                fake = made_by(Z)
                value = (loss(told_by(X), ones) + loss(told_by(fake.detach()), zeros)) / 2
            value.backward()
            trainers[1].step(64)
            with autograd.record():
                value = loss(told_by(made_by(Z)), ones)
            value.backward()
            trainers[0].step(64)
    centre = made_by(np.random.normal(0, 1, (256, 2))).mean(axis=0).asnumpy()
    assert onp.abs(centre - b).max() < 1.0


def test_gaussian_processes():
    """The length scale of a kernel is found by its marginal likelihood, and the mean goes through the data."""
    X = np.array(onp.linspace(0, 5, 12)[:, None])
    y = np.sin(X[:, 0] * 1.5)

    def kernel(a, b, scale):
        return np.exp(-0.5 * ((a - b.T) / np.exp(scale)) ** 2)
    scale = np.array(1.5)
    scale.attach_grad()
    noise, values = 1e-3 * np.eye(12), []
    for _ in range(25):
        with autograd.record():
            K = kernel(X, X, scale) + noise
            L = np.linalg.cholesky(K)
            value = 0.5 * np.dot(y, np.linalg.solve(K, y.reshape(-1, 1))[:, 0]) + np.log(np.diag(L)).sum()
        value.backward()
        scale[()] = scale - 0.02 * np.clip(scale.grad, -5, 5)
        values.append(float(value))
    assert values[-1] < values[0]
    sign, logdet = np.linalg.slogdet(kernel(X, X, scale) + noise)
    assert float(sign) == 1 and abs(float(logdet) - 2 * float(np.log(np.diag(np.linalg.cholesky(kernel(X, X, scale) + noise))).sum())) < 1e-2
    test = np.array(onp.linspace(0.2, 4.8, 9)[:, None])
    mean = np.dot(kernel(test, X, scale), np.linalg.solve(kernel(X, X, scale) + noise, y.reshape(-1, 1)))[:, 0]
    assert float(np.abs(mean - np.sin(test[:, 0] * 1.5)).max()) < 0.1


def test_optimizers_by_hand_are_the_trainer_s():
    X, target = np.random.normal(size=(30, 4)), np.random.normal(size=(30,))

    def momentum(w, g, s, t):
        s["v"] = 0.9 * s.get("v", 0) + 0.02 * g
        return w - s["v"]

    def adam(w, g, s, t):
        s["v"], s["s"] = 0.9 * s.get("v", 0) + 0.1 * g, 0.999 * s.get("s", 0) + 0.001 * g * g
        return w - 0.02 * math.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t) * s["v"] / (np.sqrt(s["s"]) + 1e-8)
    for name, options, step in (("sgd", {"learning_rate": 0.02, "momentum": 0.9}, momentum), ("adam", {"learning_rate": 0.02}, adam)):
        w = np.zeros(4)
        w.attach_grad()
        layer, state = nn.Dense(1, use_bias=False, in_units=4), {}
        layer.initialize(init.Zero())
        trainer, loss = gluon.Trainer(layer.collect_params(), name, options), gluon.loss.L2Loss()
        for t in range(1, 11):
            with autograd.record():
                by_hand = ((np.dot(X, w) - target) ** 2 / 2).mean()
                value = loss(layer(X)[:, 0], target).mean()
            by_hand.backward(), value.backward()
            w[:] = step(w, w.grad, state, t)
            trainer.step(1)
        onp.testing.assert_allclose(w.asnumpy(), layer.weight.data().asnumpy()[0], rtol=1e-4, atol=1e-5)


def test_boxes_and_anchors():
    anchors = npx.multibox_prior(np.zeros((1, 3, 4, 4)), sizes=[0.5, 0.25], ratios=[1, 2])
    assert anchors.shape == (1, 4 * 4 * 3, 4)
    truth = np.array([[[0, 0.1, 0.1, 0.5, 0.5], [1, 0.5, 0.5, 0.9, 0.95]]])
    offsets, mask, classes = npx.multibox_target(anchors, truth, np.zeros((1, 3, 48)))
    assert set(classes.asnumpy().reshape(-1)) >= {0, 1, 2} and mask.shape == offsets.shape == (1, 192)
    scores = npx.softmax(npx.one_hot(classes, 3).transpose(0, 2, 1) * 8, axis=1)
    found = npx.multibox_detection(scores, offsets, anchors, nms_threshold=0.3)
    kept = found[0][found[0][:, 0] >= 0]
    for box in truth[0]:
        same = kept[kept[:, 0] == box[0]]
        assert float(np.abs(same[:, 2:] - box[1:]).max(axis=1).min()) < 0.02
