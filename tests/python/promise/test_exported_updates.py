"""Networks that update values in place, or ask for modes, are exported after a call that recorded nothing, and trained from the files."""
import numpy as np
import pytest
from promise import Forward

import gluino as mx
from gluino import autograd, gluon, nd


def _changed(x, change):
    y = x * 1
    change(y, x)
    return y * x


def _through_a_view(y, x):
    y[0:1] *= x[1]


def _through_what_is_detached(y, x):
    part = y.detach()
    part += 1


def _swapped(y, x):
    y[0], y[1] = y[1], y[0]


UPDATES = {
    "a number": lambda y, x: y.__setitem__(slice(1, None), 7), "a value": lambda y, x: y.__setitem__(0, x[1]), "all": lambda y, x: y.__setitem__(slice(None), x * 2),
    "added": lambda y, x: y.__iadd__(x), "scaled": lambda y, x: y.__imul__(3), "through a view": _through_a_view, "swapped": _swapped,
    "several": lambda y, x: (y.__iadd__(x), y.__setitem__(0, 5), y.__imul__(x)), "by index": lambda y, x: y.__setitem__(np.array([1]), x[0:1]),
    "through what is detached": _through_what_is_detached}


@pytest.mark.parametrize("make", [nd.array, mx.np.array], ids=["nd", "np"])
@pytest.mark.parametrize("update", UPDATES)
def test_gradients_of_what_was_exported(update, make, tmp_path):
    def gradient(f):
        x = make([1.5, 2.5])
        x.attach_grad()
        with autograd.record():
            y = f(x)
        y.backward()
        return y.asnumpy().tolist(), x.grad.asnumpy().tolist()
    net = Forward(lambda self, x: _changed(x, UPDATES[update]))
    expected = gradient(net)
    net.hybridize()
    for is_recorded in (False, True):
        with autograd.record() if is_recorded else autograd.predict_mode():
            assert net(make([1.5, 2.5])).asnumpy().tolist() == expected[0]
        net.export(str(tmp_path / "net"))
        for flags in (None, {}, {"verify": True}):
            loaded = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
            if flags is not None:
                loaded.hybridize(**flags)
            for _ in range(2):
                assert gradient(loaded) == expected
    assert gradient(net) == expected


def test_a_network_that_updates_in_place_is_tuned_from_its_files(tmp_path):
    def forward(self, x):
        hidden = self.first(x)
        hidden[:, 0] = 1
        hidden += self.bias.data()
        return self.second(hidden)
    net = Forward(forward)
    net.first, net.second = gluon.nn.Dense(3, in_units=2), gluon.nn.Dense(1, in_units=3)
    net.bias = net.params.get("bias", shape=(3,), init="ones")
    mx.random.seed(1)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(nd.ones((2, 2)))  # a part that is written is one of this many rows
    net.export(str(tmp_path / "net"))

    def trained(block):
        trainer, losses = gluon.Trainer(block.collect_params(), "adam", {"learning_rate": 0.1}), []
        for step in range(5):
            with autograd.record():
                loss = (block(nd.array([[step, 1.0], [2.0, step]])) ** 2).sum()
            loss.backward()
            trainer.step(2)
            losses.append(loss.asscalar())
        return losses
    loaded = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    found = trained(loaded)
    net.hybridize(False)
    np.testing.assert_allclose(found, trained(net), rtol=1e-5)


def _asking(scope, compute=lambda x: x * 3):
    def forward(self, x):
        with scope():
            part = compute(x)
        return part * x
    return forward


def _written(self, x):
    y = x * 1
    with autograd.pause():
        y += 1
    return y * x


def _dropped(x):
    return nd.Dropout(x, p=0.5)


@autograd.pause()
def _decorated(x):
    return x * 5


MODES = {"pause": _asking(autograd.pause), "train_mode": _asking(autograd.train_mode, _dropped), "predict_mode": _asking(autograd.predict_mode, _dropped),
         "pause in training": _asking(lambda: autograd.pause(train_mode=True), _dropped),
         "decorated": lambda self, x: _decorated(x) * x, "nothing": lambda self, x: _dropped(x) * x, "written": _written}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", MODES)
def test_modes_of_what_was_exported(mode, tmp_path):
    def outcome(f):
        seen = []
        for flags in ({"train_mode": True}, {"train_mode": False}):
            x = nd.array(np.arange(1.0, 9.0))
            x.attach_grad()
            mx.random.seed(7)
            with autograd.record(**flags):
                y = f(x)
            y.backward()
            seen += [y.asnumpy().tolist(), x.grad.asnumpy().tolist()]
        mx.random.seed(7)
        return [*seen, f(x).asnumpy().tolist()]
    net = Forward(MODES[mode])
    expected = outcome(net)
    net.hybridize()
    assert outcome(net) == expected
    net.hybridize()
    net(nd.array(np.arange(8)))
    net.export(str(tmp_path / "net"))
    for flags in (None, {}, {"verify": True}):
        loaded = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"])
        if flags is not None:
            loaded.hybridize(**flags)
        assert outcome(loaded) == expected
