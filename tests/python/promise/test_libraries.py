"""Networks as libraries on top of MXNet write them: one hybrid_forward over F, run eagerly, hybridized, and from the files."""
import math

import numpy as np
import pytest

import gluino as mx
from gluino import autograd, gluon, nd
from gluino.gluon import nn, rnn


def values(outputs):
    return [values(o) if isinstance(o, (list, tuple)) else o.asnumpy() for o in outputs] if isinstance(outputs, (list, tuple)) else outputs.asnumpy()


def flat(outputs):
    return [a for o in outputs for a in flat(o)] if isinstance(outputs, (list, tuple)) else [outputs]


def agree(found, expected, **tolerance):
    found, expected = flat(values(found)), flat(values(expected))
    assert len(found) == len(expected)
    for f, e in zip(found, expected):
        assert f.shape == e.shape and f.dtype == e.dtype
        np.testing.assert_allclose(f, e, **{"rtol": 2e-5, "atol": 2e-6, **tolerance})


def ways(net, path, *args):
    """Results of net eagerly; hybridized twice, static and from its files they are the same."""
    expected = net(*args)
    gradients = []
    for options in (None, {}, {"static_alloc": True, "static_shape": True}):
        net.hybridize(options is not None, **(options or {}))
        for _ in range(2):
            agree(net(*args), expected)
        parameters = [p for p in net.collect_params().values() if p.grad_req != "null"]
        if not parameters:
            continue
        with autograd.record(train_mode=False):
            loss = sum((o.astype("float32") ** 2).sum() for o in flat(net(*args)))
        loss.backward()
        gradients.append([p.grad().asnumpy() for p in parameters])
    for other in gradients[1:]:
        for p, g, e in zip(parameters, other, gradients[0]):
            np.testing.assert_allclose(g, e, rtol=1e-4, atol=1e-4 * max(1.0, np.abs(e).max()), err_msg=p.name)
    net(*args)
    net.export(str(path / "net"))
    given, symbol = flat(args), mx.sym.load(str(path / "net-symbol.json"))
    inputs = ["data"] if len(given) == 1 else [f"data{i}" for i in range(len(given))]
    assert set(symbol.list_inputs()) - {name.split(":")[1] for name in nd.load(str(path / "net-0000.params"))} <= set(inputs)
    again = gluon.SymbolBlock.imports(str(path / "net-symbol.json"), inputs, str(path / "net-0000.params"))
    for hybridized in (False, True):
        again.hybridize(hybridized)
        agree(flat(again(*given)), flat(expected))
    return expected


class SelfAttention(gluon.HybridBlock):
    """Heads of queries, keys and values that one layer makes, interleaved. x: time, batch, units."""

    def __init__(self, units, heads, causal=False, **kwargs):
        super().__init__(**kwargs)
        self._heads, self._causal = heads, causal
        with self.name_scope():
            self.qkv = nn.Dense(3 * units, flatten=False, in_units=units, prefix="qkv_")
            self.proj = nn.Dense(units, flatten=False, in_units=units, prefix="proj_")

    def hybrid_forward(self, F, x, mask=None):
        qkv = self.qkv(x)
        scores = F.contrib.interleaved_matmul_selfatt_qk(qkv, heads=self._heads)
        if mask is not None:
            mask = F.broadcast_axis(F.expand_dims(mask, axis=1), axis=1, size=self._heads).reshape(shape=(-3, 0))
            scores = F.where(F.broadcast_like(F.expand_dims(mask, axis=1), scores), scores, F.ones_like(scores) * -1e9)
        if self._causal:
            place = F.contrib.arange_like(x, axis=0)
            later = F.broadcast_greater(F.reshape(place, shape=(1, -1)), F.reshape(place, shape=(-1, 1)))
            scores = F.broadcast_sub(scores, F.expand_dims(later * 1e9, axis=0))
        weights = F.softmax(scores, axis=-1)
        return self.proj(F.contrib.interleaved_matmul_selfatt_valatt(qkv, weights, heads=self._heads))


class EncoderCell(gluon.HybridBlock):
    def __init__(self, units, heads, causal=False, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.attention = SelfAttention(units, heads, causal)
            self.first, self.second = nn.LayerNorm(in_channels=units, epsilon=1e-12), nn.LayerNorm(in_channels=units)
            self.up, self.down = nn.Dense(4 * units, flatten=False, in_units=units), nn.Dense(units, flatten=False, in_units=4 * units)
            self.act, self.dropout = nn.GELU(), nn.Dropout(0.1)

    def hybrid_forward(self, F, x, mask=None):
        x = self.first(x + self.dropout(self.attention(x, mask)))
        return self.second(x + self.dropout(self.down(self.act(self.up(x)))))


class Bert(gluon.HybridBlock):
    """Words of a sequence, what stands at masked places (with the table of the words), and whether two sentences belong together."""

    def __init__(self, words, units=16, heads=2, layers=2, longest=12, causal=False, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.embed = nn.Embedding(words, units, prefix="word_")
            self.kind = nn.Embedding(2, units, prefix="kind_")
            self.place = self.params.get("place_weight", shape=(longest, units), init=mx.init.Normal(0.1))
            self.norm = nn.LayerNorm(in_channels=units)
            self.cells = nn.HybridSequential()
            for i in range(layers):
                self.cells.add(EncoderCell(units, heads, causal, prefix=f"layer{i}_"))
            self.pool = nn.Dense(units, activation="tanh", flatten=False)
            self.head = nn.HybridSequential(prefix="head_")
            with self.head.name_scope():
                self.head.add(nn.Dense(units, flatten=False), nn.GELU(), nn.LayerNorm(), nn.Dense(words, flatten=False, params=self.embed.params))

    def hybrid_forward(self, F, tokens, kinds, valid_length=None, places=None, place=None):
        x = self.embed(tokens) + self.kind(kinds)
        steps = F.contrib.arange_like(x, axis=1)
        x = self.norm(F.broadcast_add(x, F.expand_dims(F.Embedding(steps, place, input_dim=12, output_dim=16), axis=0)))
        mask = None
        if valid_length is not None:
            mask = F.broadcast_lesser(F.reshape(steps, shape=(1, -1)), F.reshape(valid_length, shape=(-1, 1)))
        x = F.transpose(x, axes=(1, 0, 2))
        for cell in self.cells:
            x = cell(x, mask)
        if valid_length is not None:
            x = F.SequenceMask(x, sequence_length=valid_length, use_sequence_length=True)
        x = F.swapaxes(x, 0, 1)
        first = self.pool(F.squeeze(F.slice_axis(x, axis=1, begin=0, end=1), axis=1))
        if places is None:
            return self.head(x), first
        rows = F.broadcast_like(F.expand_dims(F.contrib.arange_like(places, axis=0), axis=1), places)
        index = F.concat(F.reshape(rows, shape=(1, -1)), F.reshape(places, shape=(1, -1)), dim=0)
        picked = F.reshape_like(F.gather_nd(x, index), places, lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=2)
        return self.head(picked), first


def test_bert_with_masked_words(tmp_path):
    rng = np.random.RandomState(0)
    net = Bert(20, prefix="bert_")
    net.initialize(mx.init.Normal(0.3))
    tokens, kinds = nd.array(rng.randint(0, 20, (3, 7))), nd.array(np.arange(7) >= 4).expand_dims(0).broadcast_axes(axis=0, size=3)
    lengths, places = nd.array([7, 4, 5]), nd.array([[0, 6], [3, 1], [4, 4]])
    words, first = ways(net, tmp_path, tokens, kinds, lengths, places)
    assert words.shape == (3, 2, 20) and first.shape == (3, 16)
    everywhere, _ = net(tokens, kinds, lengths)
    agree(words, nd.array(np.take_along_axis(everywhere.asnumpy(), places.asnumpy().astype(int)[:, :, None], axis=1)))
    changed = tokens.asnumpy()
    changed[1, 4:], changed[2, 5:] = 0, 1
    agree(net(nd.array(changed), kinds, lengths, places), (words, first))
    assert net.head[3].weight is net.embed.weight and len(net.collect_params(".*word_weight")) == 1


class BeamStep(gluon.HybridBlock):
    """One step of a search: scores (batch, beams) and log-probabilities (batch, beams, words) to the best, with whom they continue."""

    def __init__(self, beams, words, end, **kwargs):
        super().__init__(**kwargs)
        self._beams, self._words, self._end = beams, words, end

    def hybrid_forward(self, F, logs, scores, done, rows):
        kept = F.one_hot(F.full(shape=(1,), val=self._end), depth=self._words, on_value=0.0, off_value=-1e9).expand_dims(0)
        logs = F.where(F.broadcast_like(F.expand_dims(done, 2), logs), F.broadcast_like(kept, logs), logs)
        joined = F.reshape(F.broadcast_add(logs, F.expand_dims(scores, axis=2)), shape=(0, -3))
        best, index = F.topk(joined, axis=1, k=self._beams, ret_typ="both", is_ascend=False, dtype="int32")
        beam = F.broadcast_add(F.cast(index / self._words, "int32"), F.expand_dims(rows, axis=1) * self._beams)
        word = index % self._words
        ended = F.take(F.reshape(done, shape=(-3,)), beam, mode="clip")
        return best, word, beam, F.broadcast_logical_or(ended, word == self._end).astype("float32")


def test_beam_search_finds_the_best_sentences(tmp_path):
    words, beams, steps, end = 5, 25, 3, 4
    net, step = Bert(words, causal=True), BeamStep(beams, words, end)
    net.initialize(mx.init.Normal(0.5))

    def logs_of(sentences):
        return nd.log_softmax(net(sentences, nd.zeros_like(sentences))[0], axis=-1)
    best = {}
    for hybridized in (False, True):
        net.hybridize(hybridized)
        step.hybridize(hybridized)
        sentences, rows = nd.array([[0], [1]]).repeat(beams, axis=0), nd.arange(2, dtype="int32")
        scores, done = nd.full((2, beams), -1e9), nd.zeros((2, beams))
        scores[:, 0] = 0
        for _ in range(steps):
            logs = nd.slice_axis(logs_of(sentences), axis=1, begin=-1, end=None).reshape((2, beams, words))
            scores, word, beam, done = step(logs, scores, done, rows)
            sentences = nd.concat(nd.take(sentences, beam.reshape((-1,))), word.reshape((-1, 1)).astype("float32"), dim=1)
        best[hybridized] = sentences.reshape((2, beams, -1)).asnumpy(), scores.asnumpy()
    np.testing.assert_array_equal(best[True][0], best[False][0])
    np.testing.assert_allclose(best[True][1], best[False][1], rtol=1e-5)
    for row, begin in enumerate((0, 1)):
        found = []
        every = np.array([[begin, a, b, c] for a in range(words) for b in range(words) for c in range(words)])
        logs = logs_of(nd.array(every)).asnumpy()
        for sentence, log in zip(every, logs):
            ends = [t for t in range(1, 4) if sentence[t] == end]
            if ends and (sentence[ends[0]:] != end).any():
                continue  # behind the end stands the end
            last = ends[0] if ends else 3
            found.append((sum(log[t - 1, sentence[t]] for t in range(1, last + 1)), sentence.tolist()))
        found.sort(key=lambda pair: -pair[0])
        np.testing.assert_allclose(best[False][1][row, :5], [s for s, _ in found[:5]], rtol=1e-4)
        assert best[False][0][row, 0].tolist() == found[0][1]


class StudentT:
    """A distribution over F: arrays or symbols alike."""

    names = ("mu", "sigma", "nu")

    def __init__(self, F, mu, sigma, nu):
        self.F, self.args = F, (mu, sigma, nu)

    @staticmethod
    def domain(F, mu, sigma, nu):
        return mu, F.Activation(sigma, act_type="softrelu"), 2.0 + F.Activation(nu, act_type="softrelu")

    def log_prob(self, x):
        F, (mu, sigma, nu) = self.F, self.args
        half = (nu + 1.0) / 2.0
        const = F.gammaln(half) - F.gammaln(nu / 2.0) - 0.5 * F.log(math.pi * nu) - F.log(sigma)
        return const - half * F.log(1.0 + F.square(F.broadcast_div(F.broadcast_minus(x, mu), sigma)) / nu)

    def sample(self, count):
        F, (mu, sigma, nu) = self.F, self.args
        gammas = F.sample_gamma(alpha=nu / 2.0, beta=2.0 / (nu * F.square(sigma)), shape=(count,))
        return F.sample_normal(mu=F.broadcast_like(F.expand_dims(mu, axis=-1), gammas), sigma=1.0 / F.sqrt(gammas))


class NegativeBinomial:
    names = ("mu", "alpha")

    def __init__(self, F, mu, alpha):
        self.F, self.args = F, (mu, alpha)

    @staticmethod
    def domain(F, mu, alpha):
        return F.Activation(mu, act_type="softrelu") + 1e-8, F.Activation(alpha, act_type="softrelu") + 1e-8

    def log_prob(self, x):
        F, (mu, alpha) = self.F, self.args
        inverse = 1.0 / alpha
        both = F.broadcast_mul(alpha, mu)
        return (F.broadcast_mul(x, F.log(both / (1.0 + both))) - F.broadcast_mul(inverse, F.log1p(both)) + F.gammaln(F.broadcast_add(x, inverse))
                - F.gammaln(x + 1.0) - F.gammaln(inverse))

    def sample(self, count):
        F, (mu, alpha) = self.F, self.args
        rates = F.sample_gamma(alpha=1.0 / alpha, beta=alpha * mu, shape=(count,))
        return F.sample_poisson(lam=rates)


class Forecaster(gluon.HybridBlock):
    """The past of series to the parameters of what comes next, relative to the scale of each series."""

    def __init__(self, distribution, length, lags=(1, 2, 4), cells=6, kinds=3, dtype=np.float32, **kwargs):
        super().__init__(**kwargs)
        self.distribution, self.length, self.lags, self.dtype = distribution, length, lags, dtype
        with self.name_scope():
            self.rnn = rnn.HybridSequentialRNNCell()
            for k in range(2):
                cell = rnn.LSTMCell(hidden_size=cells)
                self.rnn.add(rnn.ZoneoutCell(rnn.ResidualCell(cell) if k > 0 else cell, zoneout_states=0.1))
            self.embed = nn.Embedding(kinds, 2)
            self.heads = nn.HybridSequential()
            for name in distribution.names:
                self.heads.add(nn.Dense(1, flatten=False, prefix=name + "_"))

    def scale(self, F, target, observed):
        count = F.sum(observed, axis=1)
        total = F.sum(F.abs(target) * observed, axis=1)
        default = F.broadcast_div(F.sum(total, axis=0), F.maximum(F.sum(count, axis=0), 1.0))
        own = F.where(F.broadcast_greater(total, F.zeros_like(total)), total / F.maximum(count, 1.0), F.broadcast_mul(default, F.ones_like(count)))
        return F.expand_dims(F.maximum(own, 1e-10), axis=1)

    def lagged(self, F, sequence):
        parts = [F.slice_axis(sequence, axis=1, begin=-lag - self.length, end=None if lag == 0 else -lag) for lag in self.lags]
        return F.stack(*parts, axis=-1)

    def hybrid_forward(self, F, kind, features, past, observed):
        scale = self.scale(F, past, observed)
        steps = F.broadcast_div(self.lagged(F, past), F.expand_dims(scale, axis=-1))
        static = F.concat(self.embed(kind), F.log(scale), dim=1).expand_dims(axis=1).repeat(axis=1, repeats=self.length)
        inputs = F.concat(steps, features, static, dim=-1)
        batch = inputs.shape[0] if isinstance(inputs, nd.NDArray) else 0
        out, states = self.rnn.unroll(inputs=inputs, length=self.length, layout="NTC", merge_outputs=True,
                                      begin_state=self.rnn.begin_state(func=F.zeros, dtype=self.dtype, batch_size=batch))
        args = [F.squeeze(head(out), axis=-1) for head in self.heads]
        return self.distribution.domain(F, *args), scale, states


class Likelihood(gluon.HybridBlock):
    def __init__(self, net, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.net = net

    def hybrid_forward(self, F, kind, features, past, observed):
        args, scale, _ = self.net(kind, features, past, observed)
        target = F.broadcast_div(F.slice_axis(past, axis=1, begin=-self.net.length, end=None), scale)
        loss = -self.net.distribution(F, *args).log_prob(F.round(target))
        weights = F.slice_axis(observed, axis=1, begin=-self.net.length, end=None)
        weighted = F.where(condition=weights, x=loss * weights, y=F.zeros_like(loss))
        return F.sum(weighted, axis=1) / F.maximum(1.0, F.sum(weights, axis=1))


class Sampler(gluon.HybridBlock):
    """What may come next, from the parameters and states that a forecaster leaves."""

    def __init__(self, net, count, **kwargs):
        super().__init__(**kwargs)
        self.count = count
        with self.name_scope():
            self.net = net

    def hybrid_forward(self, F, args, scale, states):
        states = [F.repeat(s, repeats=self.count, axis=0) for s in states]
        scale = F.repeat(scale, repeats=self.count, axis=0)
        last = [F.slice_axis(a, axis=1, begin=-1, end=None).squeeze(axis=1) for a in args]
        drawn = F.reshape(self.net.distribution(F, *last).sample(self.count), shape=(-1, 1))
        inputs = F.concat(F.tile(drawn, reps=(1, 3)), F.zeros_like(F.slice_axis(scale, axis=1, begin=0, end=1)), F.zeros_like(F.tile(scale, reps=(1, 3))), dim=1)
        out, states = self.net.rnn(inputs, states)
        after = [F.squeeze(head(out), axis=-1) for head in self.net.heads]
        return F.broadcast_mul(drawn, scale), self.net.distribution.domain(F, *after), states


@pytest.mark.parametrize("distribution", (StudentT, NegativeBinomial))
def test_forecasts_of_time_series(tmp_path, distribution):
    rng = np.random.RandomState(0)
    net = Forecaster(distribution, length=6)
    net.initialize(mx.init.Xavier(magnitude=1.0))
    kind, features = nd.array([0, 2, 1, 2]), nd.array(rng.uniform(size=(4, 6, 1)))
    past, observed = nd.array(rng.poisson(5, (4, 10))), nd.array(rng.uniform(size=(4, 10)) < 0.8)
    past[3], observed[3] = 0, 0
    args, scale, states = ways(net, tmp_path, kind, features, past, observed)
    assert len(states) == 4 and all(a.shape == (4, 6) for a in args) and scale.shape == (4, 1)
    loss = Likelihood(net)
    expected = ways(loss, tmp_path, kind, features, past, observed)
    assert expected[3].asscalar() == 0 and np.isfinite(expected.asnumpy()).all()
    sampler, drawn = Sampler(net, 5), []
    for hybridized in (False, True):
        sampler.hybridize(hybridized)
        for _ in range(2):
            mx.random.seed(7)
            drawn.append(sampler(args, scale, states))
    for other in drawn[1:]:
        agree(other, drawn[0])
    assert drawn[0][0].shape == (20, 1) and drawn[0][1][0].shape == (20,)
    loss.hybridize()
    trainer, losses = gluon.Trainer(loss.collect_params(), "adam", {"learning_rate": 0.01, "wd": 1e-8, "clip_gradient": 10.0}), []
    for _ in range(20):
        with autograd.record():
            value = loss(kind, features, past, observed)
        value.backward()
        trainer.step(4)
        losses.append(value.mean().asscalar())
    assert losses[-1] < losses[0]


class Attention(gluon.HybridBlock):
    """Attention to keys and values that stay in a cache; batch, time, units."""

    def __init__(self, units, heads, **kwargs):
        super().__init__(**kwargs)
        self._units, self._heads = units, heads
        with self.name_scope():
            self.query = nn.Dense(units, flatten=False, use_bias=False, in_units=units, prefix="q_")
            self.keys = nn.Dense(units, flatten=False, use_bias=False, in_units=units, prefix="k_")
            self.kept = nn.Dense(units, flatten=False, use_bias=False, in_units=units, prefix="v_")
            self.out = nn.Dense(units, flatten=False, use_bias=False, in_units=units, prefix="h2o_")

    def split(self, F, x):
        x = F.reshape(x, shape=(0, -1, self._heads, self._units // self._heads))
        return F.reshape(F.transpose(x, axes=(0, 2, 1, 3)), shape=(-3, 0, 0))

    def hybrid_forward(self, F, x, keys, kept, bias=None):
        query = self.split(F, self.query(x)) * (self._units // self._heads) ** -0.5
        scores = F.batch_dot(query, self.split(F, keys), transpose_b=True)
        if bias is not None:
            scores = F.broadcast_add(scores, bias)
        heads = F.reshape(F.batch_dot(F.softmax(scores, axis=-1), self.split(F, kept)), shape=(-4, -1, self._heads, 0, -1))
        return self.out(F.reshape(F.transpose(heads, axes=(0, 2, 1, 3)), shape=(0, 0, -1)))


class DecoderLayer(gluon.HybridBlock):
    def __init__(self, units, heads, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.inner, self.outer = Attention(units, heads, prefix="inner_"), Attention(units, heads, prefix="outer_")
            self.up, self.down = nn.Dense(2 * units, activation="relu", flatten=False), nn.Dense(units, flatten=False)
            self.norms = [nn.LayerNorm(prefix=f"norm{i}_") for i in range(3)]
            for norm in self.norms:
                self.register_child(norm)

    def hybrid_forward(self, F, x, source_keys, source_kept, source_bias, keys, kept, bias=None):
        y = self.norms[0](x)
        keys, kept = F.concat(keys, self.inner.keys(y), dim=1), F.concat(kept, self.inner.kept(y), dim=1)
        x = x + self.inner(y, keys, kept, bias)
        x = x + self.outer(self.norms[1](x), source_keys, source_kept, source_bias)
        return x + self.down(self.up(self.norms[2](x))), keys, kept


class Decoder(gluon.HybridBlock):
    """The words so far, or the last one and what is known of those before it, to the scores of the next."""

    def __init__(self, words, units=8, heads=2, layers=2, longest=10, **kwargs):
        super().__init__(**kwargs)
        self._units, self._words = units, words
        with self.name_scope():
            self.weight = self.params.get("target_weight", shape=(words, units))
            angles = np.arange(longest)[:, None] / 10 ** (np.arange(units // 2) / 2)
            self.table = self.params.get_constant("table", np.concatenate([np.sin(angles), np.cos(angles)], axis=1))
            self.layers = nn.HybridSequential()
            for i in range(layers):
                self.layers.add(DecoderLayer(units, heads, prefix=f"{i}_"))

    def start(self, memory):
        nothing = nd.zeros((memory.shape[0], 0, self._units), dtype=memory.dtype)
        return [state for layer in self.layers for state in (layer.outer.keys(memory), layer.outer.kept(memory), nothing, nothing)]

    def hybrid_forward(self, F, words, place, source_bias, states, bias=None, weight=None, table=None):
        x = F.Embedding(words, weight, input_dim=self._words, output_dim=self._units) * self._units ** 0.5
        x = F.broadcast_add(x, F.take(table, place, axis=0, mode="clip"))
        after = []
        for i, layer in enumerate(self.layers):
            x, keys, kept = layer(x, states[4 * i], states[4 * i + 1], source_bias, states[4 * i + 2], states[4 * i + 3], bias)
            after += [states[4 * i], states[4 * i + 1], keys, kept]
        return F.FullyConnected(x, weight, None, num_hidden=self._words, no_bias=True, flatten=False), after


def test_translation_with_what_is_kept_of_the_words_before(tmp_path):
    rng = np.random.RandomState(0)
    net = Decoder(11)
    net.initialize(mx.init.Xavier(factor_type="avg", magnitude=3.0))
    memory, lengths = nd.array(rng.normal(size=(3, 5, 8))), nd.array([5, 2, 3])
    source_bias = nd.SequenceMask(nd.zeros((5, 3)), sequence_length=lengths, use_sequence_length=True, value=-1e8).T
    source_bias = nd.repeat(source_bias, repeats=2, axis=0).expand_dims(1)
    words, places = nd.array(rng.randint(0, 11, (3, 4))), nd.arange(4).reshape((1, -1))
    states = net.start(memory)
    causal = nd.array(np.triu(np.full((4, 4), -1e8, "float32"), 1)).expand_dims(0)

    def step_by_step():
        carried, scores = states, []
        for t in range(4):
            one, carried = net(nd.slice_axis(words, axis=1, begin=t, end=t + 1), nd.array([[t]]), source_bias, carried)
            scores.append(one)
        return nd.concat(*scores, dim=1), carried
    whole, after = net(words, places, source_bias, states, causal)
    agree(step_by_step(), (whole, after), rtol=1e-4, atol=1e-5)
    net.hybridize()
    agree(step_by_step(), (whole, after), rtol=1e-4, atol=1e-5)
    net.hybridize(False)
    ways(net, tmp_path, nd.array([[1], [5], [2]]), nd.array([[4]]), source_bias, after)
    net.save_parameters(str(tmp_path / "float32.params"))
    half = Decoder(11, prefix=net.prefix)
    half.cast("float16")
    half.load_parameters(str(tmp_path / "float32.params"), cast_dtype=True, dtype_source="current")
    assert {p.dtype for p in half.collect_params().values()} == {np.float16}
    for hybridized in (False, True):
        half.hybridize(hybridized)
        found, _ = half(words, places, source_bias.astype("float16"), [s.astype("float16") for s in states], causal.astype("float16"))
        assert found.dtype == np.float16
        np.testing.assert_allclose(found.asnumpy(), whole.asnumpy(), rtol=0.05, atol=0.05)


class Int8Dense(gluon.HybridBlock):
    """A layer whose weight is kept as whole numbers."""

    def __init__(self, units, in_units, **kwargs):
        super().__init__(**kwargs)
        self._units = units
        with self.name_scope():
            self.scaling = self.params.get("scaling", shape=(1,), init="zeros", grad_req="null")
            self.weight = self.params.get("weight", shape=(units, in_units), dtype="int8", init="zeros", grad_req="null")
            self.bias = self.params.get("bias", shape=(units,), init="zeros", grad_req="null")

    def hybrid_forward(self, F, x, scaling, weight, bias):
        greatest = F.contrib.intgemm_maxabsolute(x)
        levels = F.contrib.intgemm_prepare_data(x, greatest)
        return F.contrib.intgemm_fully_connected(levels, weight, scaling * greatest / 127.0, bias, num_hidden=self._units, flatten=False, no_bias=False)


def test_layers_of_whole_numbers(tmp_path):
    rng = np.random.RandomState(0)
    plain = nn.Dense(8, flatten=False, in_units=64, bias_initializer=mx.init.Normal(0.1))
    plain.initialize(mx.init.Xavier())
    small, x = Int8Dense(8, 64), nd.array(rng.normal(size=(2, 3, 64)))
    small.initialize()
    greatest = nd.contrib.intgemm_maxabsolute(plain.weight.data())
    small.weight.set_data(nd.contrib.intgemm_prepare_weight(plain.weight.data(), greatest))
    small.scaling.set_data(greatest / 127.0)
    small.bias.set_data(plain.bias.data())
    expected = ways(small, tmp_path, x)
    assert np.abs(expected.asnumpy() - plain(x).asnumpy()).max() < 0.03
    chosen = nd.array([1, 0, 5, 2, 3, 7, 6, 4], dtype="int32")
    taken = nd.contrib.intgemm_take_weight(small.weight.data(), chosen)
    small.weight.set_data(taken)
    small.bias.set_data(nd.take(plain.bias.data(), chosen))
    agree(small(x), nd.take(expected, chosen, axis=-1))
