"""Optimizers: many weights at once as one by one, those of the user, and formulas that are easily mistaken."""
import inspect
import json

import numpy as np
import pytest

import mxnet as mx
from mxnet import nd

OWN_OPTIMIZERS = [name for name, klass in mx.optimizer.Optimizer.opt_registry.items() if klass.__module__.endswith("optimizer.optimizers")]


def _optimizers(name):
    """One for each option that chooses among an optimizer's operators, if it has it."""
    common = {"learning_rate": 0.01, "wd": 0.1, "rescale_grad": 0.5, "param_idx2name": {i: f"{i}_{'bias' if i % 3 == 2 else 'weight'}" for i in range(24)}}
    for option in ({}, {"momentum": 0.9}, {"centered": True}, {"clip_gradient": 0.01}, {"multi_precision": True}, {"correct_bias": False}):
        try:
            yield option, mx.optimizer.create(name, **common, **option)
        except TypeError:  # it has no such option
            assert option.keys() != {"clip_gradient"}


def _weights(count):
    return [nd.array(np.random.RandomState(i).randn(i % 5 + 2, 3), dtype=("float32", "float32", "float64", "float16")[i % 4]) for i in range(count)]


@pytest.mark.parametrize("name", OWN_OPTIMIZERS)
def test_many_weights_are_updated_as_one_by_one(name):
    for (option, together), (_, apart) in zip(_optimizers(name), _optimizers(name)):
        results = []
        for optimizer, size in ((together, 8), (apart, 1)):
            updater, weights = mx.optimizer.get_updater(optimizer), _weights(8)
            mx.random.seed(3)
            for step in range(3):
                optimizer.set_learning_rate(0.01 * (step + 1))
                gradients = [w * 0.3 + step for w in weights]
                for i in range(0, 8, size):
                    updater(list(range(i, i + size)), gradients[i:i + size], weights[i:i + size])
            results.append([w.asnumpy() for w in weights])
        for i, (got, want) in enumerate(zip(*results)):
            np.testing.assert_array_equal(got, want, err_msg=f"{option}, weight {i}")


@pytest.mark.parametrize("name", OWN_OPTIMIZERS)
def test_an_update_of_many_weights_calls_few_operators(name):
    def calls_of_an_update(optimizer, count):
        updater, weights = mx.optimizer.get_updater(optimizer), _weights(count)
        for _ in range(2):  # the first makes the states
            gradients = [w * 0.3 for w in weights]
            mx.profiler.dumps(reset=True)
            mx.profiler.set_state("run")
            updater(list(range(count)), gradients, weights)
            mx.profiler.set_state("stop")
        return sum(row["Count"] for row in json.loads(mx.profiler.dumps(reset=True, format="json"))["Time"]["operator"].values())

    for (option, few), (_, many) in zip(_optimizers(name), _optimizers(name)):
        calls = calls_of_an_update(few, 4)
        assert calls_of_an_update(many, 24) == calls, option
        assert 1 <= calls <= 3, option  # a step, another for what LARS does not scale, and one for copies of float16 weights


def test_the_trainer_updates_many_parameters_as_one_by_one():
    def run(together):
        params = [mx.gluon.Parameter(f"p{i}_weight", shape=(i + 2, 3), lr_mult=0.5 if i == 1 else 1.0) for i in range(4)]
        for i, p in enumerate(params):
            p.initialize(mx.init.Constant(0.1 * (i + 1)))
        groups = [params] if together else [[p] for p in params]
        trainers = [mx.gluon.Trainer(group, "adam", {"learning_rate": 0.01, "wd": 0.1}) for group in groups]
        for _ in range(3):
            with mx.autograd.record():
                loss = sum((p.data() ** 2).sum() for p in params)
            loss.backward()
            for trainer in trainers:
                trainer.step(2)
        return [p.data().asnumpy() for p in params]

    for together, apart in zip(run(True), run(False)):
        np.testing.assert_array_equal(together, apart)


def test_an_optimizer_of_the_user_sees_the_weight_after_the_update():
    class Halving(mx.optimizer.SGD):
        def update(self, index, weight, grad, state):
            super().update(index, weight, grad, state)
            weight[:] = weight / 2

    p = mx.gluon.Parameter("weight", shape=(2,))
    p.initialize(mx.init.One())
    trainer = mx.gluon.Trainer([p], Halving(learning_rate=0.5))
    with mx.autograd.record():
        loss = p.data().sum()
    loss.backward()
    trainer.step(1)
    np.testing.assert_allclose(p.data().asnumpy(), [0.25, 0.25])


def test_adamw_decays_by_the_learning_rate():
    """w -= lr * (m / (sqrt(v) + eps) + wd * w), with lr corrected for means that start at 0."""
    lr, wd, b1, b2, eps = 0.1, 0.2, 0.9, 0.999, 1e-6
    start, gradients = np.array([1.0, -2.0, 3.0]), [np.array([0.5, 0.1, -0.3]), np.array([-0.2, 0.4, 0.7])]
    optimizer = mx.optimizer.AdamW(learning_rate=lr, wd=wd, beta1=b1, beta2=b2, epsilon=eps)
    weight = nd.array(start)
    state = optimizer.create_state(0, weight)
    w, m, v = start.copy(), np.zeros(3), np.zeros(3)
    for t, g in enumerate(gradients, 1):
        optimizer.update(0, weight, nd.array(g), state)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        w -= lr * np.sqrt(1 - b2**t) / (1 - b1**t) * (m / (np.sqrt(v) + eps) + wd * w)
        np.testing.assert_allclose(weight.asnumpy(), w, rtol=1e-5)


def test_nadam_clips_what_the_decay_was_added_to():
    weight = nd.array([3.0, -3.0, 0.1])
    optimizer = mx.optimizer.Nadam(learning_rate=0.1, wd=1.0, clip_gradient=0.5, beta1=0.9, beta2=0.999, epsilon=1e-8, schedule_decay=0.004)
    optimizer.update(0, weight, nd.array([0.2, 0.2, 0.2]), optimizer.create_state(0, weight))
    d = np.array([0.5, -0.5, 0.3])  # of 3.2, -2.8 and 0.3
    now, after = (0.9 * (1 - 0.5 * 0.96 ** (t * 0.004)) for t in (1, 2))
    blended = d * (1 - now) / (1 - now) + after * 0.1 * d / (1 - now * after)
    np.testing.assert_allclose(weight.asnumpy(), np.array([3.0, -3.0, 0.1]) - 0.1 * blended / np.abs(d), rtol=1e-5)


def test_lars_keeps_the_copies_on_several_devices_the_same():
    contexts = [mx.cpu(0), mx.cpu(1)]
    p = mx.gluon.Parameter("p_weight", shape=(2, 3))
    p.initialize(mx.init.One(), ctx=contexts)
    trainer = mx.gluon.Trainer([p], "lars", {"learning_rate": 0.1, "momentum": 0.9, "eta": 1.0})
    for lr in (0.1, 0.4, 0.2):  # a new rate also scales the momentum
        trainer.set_learning_rate(lr)
        with mx.autograd.record():
            losses = [(p.data(ctx) ** 2).sum() for ctx in contexts]
        mx.autograd.backward(losses)
        trainer.step(2)
    np.testing.assert_array_equal(p.data(contexts[0]).asnumpy(), p.data(contexts[1]).asnumpy())
    assert np.abs(p.data(contexts[0]).asnumpy() - 1).max() > 0.01


@pytest.mark.parametrize("name", OWN_OPTIMIZERS)
def test_numbers_that_mean_nothing_are_refused_when_it_is_made(name):
    made = mx.optimizer.create(name)
    assert mx.optimizer.create(name, learning_rate=0, clip_gradient=-1).learning_rate == 0
    options = {"learning_rate", "wd", "momentum", "beta1", "beta2", "epsilon", "eps", "rho", "gamma1", "lamda1", "lamda", "eta", "wd_lh"}
    other_names = {"adagrad": {"epsilon": "eps"}, "rmsprop": {"rho": "gamma1", "momentum": "gamma2"}}.get(name, {})
    for option in options & ({"learning_rate", "wd"} | set(inspect.signature(type(made)).parameters)):
        for wrong in (-1, float("nan")):
            with pytest.raises(mx.MXNetError, match=f"option '{other_names.get(option, option)}'"):
                mx.optimizer.create(name, **{option: wrong})
    for option in {"beta1", "beta2"} & set(inspect.signature(type(made)).parameters):
        with pytest.raises(mx.MXNetError, match=f"option '{option}' must be below 1"):
            mx.optimizer.create(name, **{option: 1})


def test_options_of_a_subclass_are_checked_after_its_constructor():
    class Own(mx.optimizer.SGD):
        def __init__(self, **kwargs):
            super().__init__(momentum=-1, **kwargs)
            self.momentum = 0.5

    assert Own().momentum == 0.5
    with pytest.raises(mx.MXNetError, match="option 'wd' must not be below 0, and is -2"):
        Own(wd=-2)
