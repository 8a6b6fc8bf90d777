"""Random networks and their lives: trained, cast, frozen, saved, loaded, exported, changed, called wrongly. What their owner sees is the same eagerly,
hybridized in each way, and with only some of the layers hybridized. GLUINO_PYTHON_LIVES=5000 for a long run."""
import os
import random

import numpy as np
import pytest

import gluino as mx
from gluino import autograd, gluon, nd
from gluino.gluon import nn, rnn

COUNT = int(os.environ.get("GLUINO_PYTHON_LIVES", "100"))
FIRST = int(os.environ.get("GLUINO_PYTHON_FIRST", "0"))
ERRORS = (mx.MXNetError, AssertionError, RuntimeError)  # of a network that has no values yet, as in MXNet
# A bias before a normalising layer has a gradient of rounding errors alone, which no optimizer may divide by their own size.
OPTIMIZERS = {"sgd": {}, "nag": {}, "adam": {"epsilon": 0.1}, "rmsprop": {"epsilon": 0.1}, "adagrad": {"eps": 0.1}}
MODES = [{}, {"verify": True}, {"static_alloc": True}, None]  # None: some of the layers alone


class Residual(nn.HybridBlock):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def hybrid_forward(self, F, x):
        return x + self.inner(x)


class Moded(nn.HybridBlock):
    """Does another thing in training, by a number that its owner may change."""

    def __init__(self):
        super().__init__()
        self.scale = 1.5

    def forward(self, x):
        return x * self.scale if autograd.is_training() else x - 0.25


class Branching(nn.HybridBlock):
    def forward(self, x):
        return x.tanh() if x.sum() > 0 else x * 0.5 * x.shape[0]


LAYERS = {
    "rows": [lambda: nn.Dense(6, activation="relu"), lambda: nn.BatchNorm(), lambda: nn.Dropout(0.3), lambda: nn.LayerNorm(), lambda: Residual(nn.Dense(6)),
             Moded, Branching, lambda: nn.PReLU(), lambda: nn.HybridLambda(lambda F, x: F.softmax(x) * 3), lambda: nn.Swish()],
    "images": [lambda: nn.Conv2D(6, 3, padding=1, activation="relu"), lambda: nn.BatchNorm(), lambda: nn.MaxPool2D(2, 1, 1), lambda: nn.InstanceNorm(),
               lambda: Residual(nn.Conv2D(6, 1)), Moded, Branching, lambda: nn.GroupNorm(), lambda: nn.Conv2DTranspose(6, 2), lambda: nn.Dropout(0.3, axes=(1,))],
    "sequences": [lambda: rnn.LSTM(6, layout="NTC"), lambda: rnn.GRU(3, layout="NTC", bidirectional=True), lambda: nn.LayerNorm(), Moded, Branching,
                  lambda: nn.Dense(6, flatten=False, activation="tanh"), lambda: Residual(nn.Dense(6, flatten=False)), lambda: nn.BatchNorm(axis=2),
                  lambda: rnn.RNN(6, layout="NTC"), lambda: nn.GELU()],
}


class Life:
    def __init__(self, seed):
        choose = random.Random(seed)
        self.seed, self.family = seed, choose.choice(list(LAYERS))
        self.layers = [choose.randrange(10) for _ in range(choose.randint(1, 4))]
        events = [name for name in dir(Owner) if name.startswith("event_")]
        self.events = [(choose.choice(events), choose.randrange(100)) for _ in range(choose.randint(4, 10))]
        self.optimizer = choose.choice(list(OPTIMIZERS))

    def __str__(self):
        return f"life {self.seed}: {self.family} {self.layers} {self.optimizer} {self.events}"


class Owner:
    def __init__(self, life, flags, folder):
        mx.random.seed(life.seed)
        np.random.seed(life.seed % 2**31)
        self.life, self.flags, self.folder, self.draw = life, flags, folder, np.random.RandomState(life.seed % 2**31)
        self.net = nn.HybridSequential(prefix="net_")
        with self.net.name_scope():
            self.net.add(nn.Conv2D(6, 1) if life.family == "images" else nn.Dense(6, flatten=False))
            for kind in life.layers:
                self.net.add(LAYERS[life.family][kind]())
        self.net.initialize(mx.init.Uniform(0.5))
        self.dtype, self.hook, self.calls, self.seen = "float32", None, 0, []
        self.make_trainer()
        self.hybridize()

    def hybridize(self):
        if self.flags is None:
            for i, layer in enumerate(self.net):
                layer.hybridize(bool(self.life.seed >> i & 1))
        elif self.flags != "eager":
            self.net.hybridize(**self.flags)

    def make_trainer(self):
        self.trainer = gluon.Trainer(self.net.collect_params(), self.life.optimizer, dict(OPTIMIZERS[self.life.optimizer]))

    def input(self, choice):
        batch, extent = 2 + choice % 3, 4 + choice % 2
        shape = {"rows": (batch, 4), "images": (batch, 3, extent, 5), "sequences": (batch, extent, 4)}[self.life.family]
        return nd.array(self.draw.uniform(-1, 1, shape), dtype=self.dtype)

    def note(self, *values):
        self.seen += [value.astype("float32").asnumpy() if isinstance(value, nd.NDArray) else value for value in values]

    @staticmethod
    def loss_of(y):
        return ((y - 0.25) ** 2 * (y + 2)).mean()

    def train(self, x, train_mode=True):
        x.attach_grad()
        with autograd.record(train_mode=train_mode):
            loss = self.loss_of(self.net(x))
        loss.backward()
        self.note(loss, x.grad)
        self.trainer.step(1, ignore_stale_grad=True)

    def path(self, name):
        return str(self.folder / name)

    def live(self):
        for event, choice in self.life.events:
            try:
                getattr(self, event)(choice)
            except ERRORS as error:
                self.note(type(error).__name__, str(error))
            for parameter in self.net.collect_params().values():
                if parameter._data is not None:
                    self.note(parameter.data())
            self.note(self.calls, nd.random.uniform(shape=(2,)))
        return self.seen

    def event_predict(self, choice):
        self.note(self.net(self.input(choice)))

    def event_train(self, choice):
        self.train(self.input(choice))

    event_train_again = event_train

    def event_train_without_training_mode(self, choice):
        self.train(self.input(choice), False)

    def event_add_gradients(self, choice):
        weights = self.net.collect_params(".*weight")
        weights.setattr("grad_req", "add")
        weights.zero_grad()
        for i in range(2):
            with autograd.record():
                loss = self.loss_of(self.net(self.input(choice + i)))
            loss.backward()
        self.trainer.step(2, ignore_stale_grad=True)
        weights.setattr("grad_req", "write")

    def event_save_and_load(self, choice):
        self.net(self.input(choice))
        self.net.save_parameters(self.path("a.params"))
        self.train(self.input(choice))
        self.net.load_parameters(self.path("a.params"))
        self.event_predict(choice)

    def event_cast(self, choice):
        self.dtype = "float64" if self.dtype == "float32" else "float32"
        self.net.cast(self.dtype)
        self.make_trainer()
        self.event_predict(choice)

    def event_rate(self, choice):
        self.trainer.set_learning_rate(0.001 * (1 + choice))

    def event_start_again(self, choice):
        self.net.initialize(mx.init.Uniform(0.25), force_reinit=True)
        self.make_trainer()

    def event_freeze(self, choice):
        for parameter in list(self.net.collect_params(".*(weight|bias)").values())[choice % 2::2]:
            parameter.grad_req = "write" if parameter.grad_req == "null" else "null"
        self.train(self.input(choice))

    def event_hook(self, choice):
        if self.hook is not None:
            self.hook.detach()
            self.hook = None
        else:
            self.hook = self.net[0].register_forward_hook(lambda *_: setattr(self, "calls", self.calls + 1))
        self.event_predict(choice)

    def event_second_order(self, choice):
        x = self.input(choice)
        x.attach_grad()
        with autograd.record():
            g = autograd.grad(self.loss_of(self.net(x)), [x], create_graph=True)[0]
            penalty = (g * g).sum()
        penalty.backward()
        self.note(penalty, x.grad)
        self.trainer.step(1, ignore_stale_grad=True)

    def event_attribute(self, choice):
        for layer in self.net:
            if isinstance(layer, Moded):
                layer.scale = choice / 10
        self.event_predict(choice)
        self.event_train(choice)

    def event_set_data(self, choice):
        for parameter in self.net.collect_params(".*bias" if choice % 2 else ".*weight").values():
            if parameter._data is not None:
                parameter.set_data(parameter.data() * 0.75)
        self.event_predict(choice)

    def event_modes(self, choice):
        with autograd.train_mode() if choice % 2 else autograd.predict_mode():
            self.event_predict(choice)

    def event_part(self, choice):
        self.note(self.net[0](self.input(choice)))

    def event_two_calls(self, choice):
        a, b = self.input(choice), self.input(choice + 1)
        with autograd.record():
            first, second = self.loss_of(self.net(a)), self.loss_of(self.net(b))
        second.backward()
        first.backward()
        self.trainer.step(1, ignore_stale_grad=True)

    def event_states(self, choice):
        self.train(self.input(choice))
        self.trainer.save_states(self.path("a.states"))
        self.train(self.input(choice))
        self.trainer.load_states(self.path("a.states"))

    def event_wrong_input(self, choice):
        try:
            self.note(self.net(nd.ones((2, 2, 2, 2, 2, 2, 2), dtype=self.dtype)))
        except ERRORS as error:
            self.note(type(error).__name__)
        self.event_predict(choice)

    def event_another_layer(self, choice):
        self.net.add(nn.GELU() if choice % 2 else nn.Dropout(0.2))
        self.net.initialize(mx.init.Uniform(0.25))
        self.hybridize()
        self.event_predict(choice)

    def event_export(self, choice):
        x = self.input(choice)
        y = self.net(x)
        self.note(y)
        if self.hook is not None or self.flags in (None, "eager") or self.dtype != "float32":
            return
        self.net(x)
        try:
            self.net.export(self.path("net"))
        except mx.MXNetError:  # it reads values
            return
        loaded = gluon.SymbolBlock.imports(self.path("net-symbol.json"), ["data"], self.path("net-0000.params"))
        for _ in range(2):
            if not np.allclose(loaded(x).asnumpy(), y.asnumpy(), 1e-3, 1e-4):
                raise ValueError(f"{self.life}: what was exported gives something else")
            loaded.hybridize()

    def event_plain_again(self, choice):
        if self.flags != "eager":
            self.net.hybridize(False)
        self.event_predict(choice)
        self.hybridize()


def check(seed, folder):
    life = Life(seed)
    want = Owner(life, "eager", folder).live()
    for flags in MODES:
        got = Owner(life, flags, folder).live()
        assert len(got) == len(want), f"{life}, {flags}"
        for i, (a, b) in enumerate(zip(got, want)):
            if isinstance(b, np.ndarray):
                np.testing.assert_allclose(a, b, 1e-3, 1e-4, err_msg=f"{life}, {flags}: observation {i}")
            else:
                assert a == b, f"{life}, {flags}: observation {i}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(4))
def test_lives(part, tmp_path):
    for seed in range(FIRST + part, FIRST + COUNT, 4):
        check(seed, tmp_path)
