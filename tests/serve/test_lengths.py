"""Sequences of different lengths are filled up and joined where the model has an input that says how many steps count, and heeds it."""
import numpy as np
import pytest

import gluino as mx
from conftest import at_once, random_array
from gluino.gluon import nn

LENGTHS = [3, 5, 7, 8, 11, 16, 4, 6]


class Tagger(mx.gluon.HybridBlock):
    """Tags for each step, and a class for the whole sequence; `heeds`: what lies behind the valid length does not count."""

    def __init__(self, heeds=True):
        super().__init__()
        self.heeds = heeds
        with self.name_scope():
            self.tag, self.whole = nn.Dense(6, flatten=False), nn.Dense(8)

    def hybrid_forward(self, F, data, valid_length):
        masked = F.SequenceMask(data, valid_length, use_sequence_length=True, axis=1) if self.heeds else F.broadcast_add(data, 0 * F.reshape(valid_length, (-1, 1, 1)))
        total = F.sum(masked, axis=1)
        return self.tag(data), self.whole(F.broadcast_div(total, F.reshape(valid_length, (-1, 1))) if self.heeds else F.mean(masked, axis=1))


@pytest.fixture(params=[True, False], ids=["heeds", "ignores"])
def tagger(request, tmp_path):
    mx.random.seed(2)
    net = Tagger(request.param)
    net.initialize(mx.init.Xavier())
    data, length = mx.sym.var("data"), mx.sym.var("valid_length")
    net(mx.nd.ones((2, 4, 5)), mx.nd.array([4, 2]))
    mx.sym.Group(list(net(data, length))).save(str(tmp_path / "tagger-symbol.json"))
    mx.nd.save(str(tmp_path / "tagger-0000.params"), {f"arg:{name}": p.data() for name, p in net.collect_params().items()})
    again = mx.gluon.SymbolBlock.imports(str(tmp_path / "tagger-symbol.json"), ["data", "valid_length"], str(tmp_path / "tagger-0000.params"))
    return tmp_path / "tagger", again, request.param


def compute(net, x, length):
    return [y.asnumpy() for y in net(mx.nd.array(x), mx.nd.array(length))]


def requests(rows=2):
    for i, steps in enumerate(LENGTHS):
        yield random_array(i, rows, steps, 5), np.array([steps, max(1, steps - 2)][:rows], np.float32)


@pytest.mark.parametrize("options", [[], ["--length-buckets", "8,16"]], ids=["powers", "buckets"])
def test_lengths_are_joined(serve, tagger, options):
    path, net, heeds = tagger
    server = serve(path, "--workers", "1", "--max-delay", "30", "--length-input", "valid_length", *options)
    given = list(requests())
    for _ in range(4):
        for (x, length), reply in zip(given, at_once(len(given), lambda i: server.infer("tagger", data=given[i][0], valid_length=given[i][1]))):
            assert reply.status == 200, reply.body
            for answer, wanted in zip(reply.outputs.values(), compute(net, x, length)):
                np.testing.assert_allclose(answer, wanted, rtol=1e-4, atol=1e-5)
    batches, done = server.metric("gluino_batches_total", "tagger"), server.metric("gluino_inference_requests_total", "tagger", outcome="done")
    assert done == 4 * len(given)
    # A model that does not heed the lengths answers differently when its sequences are filled up: it is seen, and none are joined.
    assert batches < done if heeds else batches == done


def test_without_the_option_each_length_is_a_kind_of_its_own(serve, tagger):
    path, net, _ = tagger
    server = serve(path, "--workers", "1", "--max-delay", "10")
    given = list(requests())
    for (x, length), reply in zip(given, at_once(len(given), lambda i: server.infer("tagger", data=given[i][0], valid_length=given[i][1]))):
        for answer, wanted in zip(reply.outputs.values(), compute(net, x, length)):
            np.testing.assert_array_equal(answer, wanted)
    assert server.metric("gluino_batches_total", "tagger") == len(given)


def test_lengths_that_are_left_out_are_whole(serve, tagger):
    path, net, _ = tagger
    server = serve(path, "--length-input", "valid_length")
    x = random_array(0, 2, 6, 5)
    for answer, wanted in zip(server.infer("tagger", data=x).outputs.values(), compute(net, x, [6, 6])):
        np.testing.assert_array_equal(answer, wanted)
