"""Random histories of backward passes over recorded calls of hybridized blocks, with sentinels in the gradients between them.

run(plan, flags) gives all that a user could see; it must be the same for every flags. A plan is plain data, so that parts can be left out.
"""
import random

import numpy as np

import gluino as mx
from gluino import autograd, gluon, nd
from gluino.gluon import nn


class Pulled(autograd.Function):
    """Its gradient is not zero where nothing flows in."""

    def forward(self, x):
        self.save_for_backward(x)
        return x * x

    def backward(self, dy):
        return dy * self.saved_tensors[0] * 3 + 0.5


class Two(autograd.Function):
    def forward(self, x, y):
        self.save_for_backward(x, y)
        return x * 2, x + y

    def backward(self, dx, dy):
        return dx * 2 + dy, dy * self.saved_tensors[0]


def _change(array, value):
    array += value
    return array


def _pause(a, b):
    with autograd.pause():
        return a * b


def _change_under_pause(a, value):
    with autograd.pause():
        a *= value
    return a


def _state(net, a):
    net.state += a.detach() * 0.25
    return a * net.state


def _backward_inside(a, b, weight, retain):
    with autograd.record():
        z = (a * b * weight).sum()
    z.backward(retain_graph=retain)
    return a * 0.5


def _grad_inside(a, b, wanted, **options):
    with autograd.record():
        z = a * b
    return autograd.grad(z, wanted, **options)[0] + a


# What a forward is made of: (net, a, b, number) to one value or several.
STATEMENTS = {
    "add": lambda net, a, b, n: a + b, "multiply": lambda net, a, b, n: a * b, "tanh": lambda net, a, b, n: nd.tanh(a),
    "weight": lambda net, a, b, n: a * net.weights[n % 2].data(), "dense": lambda net, a, b, n: net.dense(a), "outer": lambda net, a, b, n: a * net.outer,
    "block": lambda net, a, b, n: nd.BlockGrad(a) * b, "detach": lambda net, a, b, n: a.detach() + b, "pulled": lambda net, a, b, n: Pulled()(a),
    "two": lambda net, a, b, n: list(Two()(a, b)), "pause": lambda net, a, b, n: _pause(a, b), "sign": lambda net, a, b, n: nd.sign(a),
    "split": lambda net, a, b, n: list(nd.split(nd.concat(a, b, dim=1), num_outputs=2, axis=1)), "where": lambda net, a, b, n: nd.where(a > b, a, b),
    "change": lambda net, a, b, n: _change(a, b * 0.5), "change_under_pause": lambda net, a, b, n: _change_under_pause(a, 0.5),
    "index": lambda net, a, b, n: a + b[1], "reshape": lambda net, a, b, n: a.reshape((4, 3)).reshape((3, 4)), "state": lambda net, a, b, n: _state(net, a),
    "dropout": lambda net, a, b, n: nd.Dropout(a, p=0.5), "branch": lambda net, a, b, n: a * 2 if a.sum() > b.sum() else b * net.weights[0].data(),
    "cond": lambda net, a, b, n: nd.contrib.cond(a.sum() > b.sum(), lambda: a * 2, lambda: b * net.weights[0].data()),
    "foreach": lambda net, a, b, n: nd.contrib.foreach(lambda r, s: (r * s, s + r * 0.5), a, b[0] * 1)[0],
    "rows": lambda net, a, b, n: net.table(nd.clip(nd.round(nd.abs(a)), 0, 4)).sum(axis=2) + b,
    "loss": lambda net, a, b, n: nd.SoftmaxOutput(a, nd.argmax(nd.BlockGrad(b), axis=1)), "child": lambda net, a, b, n: net.child(a),
    "backward_inside": lambda net, a, b, n: _backward_inside(a, b, net.weights[0].data(), n % 3 != 0),
    "grad_inside": lambda net, a, b, n: _grad_inside(a, b, [b, net.outer] if n % 2 else [a], retain_graph=n % 3 == 0),
    "penalty": lambda net, a, b, n: _grad_inside(a, b, [a], create_graph=True, retain_graph=True),
}
RESULTS = {
    "value": lambda net, v, a: v, "last": lambda net, v, a: a, "whole": lambda net, v, a: v.astype("int32"), "sum": lambda net, v, a: v.sum(),
    "row": lambda net, v, a: v[1], "detached": lambda net, v, a: v.detach(), "double": lambda net, v, a: v.astype("float64"),
    "state": lambda net, v, a: net.state, "outer": lambda net, v, a: net.outer, "weight": lambda net, v, a: net.weights[0].data(),
    "twice": lambda net, v, a: [v, v],
}


class Net(gluon.HybridBlock):
    def __init__(self, plan):
        super().__init__()
        self.plan = plan
        with self.name_scope():
            self.weight0 = self.params.get("weight0", shape=(4,), init=mx.init.Uniform(1))
            self.weight1 = self.params.get("weight1", shape=(3, 4), init=mx.init.Uniform(1))
            self.dense, self.table = nn.Dense(4, flatten=False, in_units=4), nn.Embedding(5, 2, sparse_grad=True)
            self.child = nn.HybridSequential()
            self.child.add(nn.Dense(4, flatten=False, in_units=4, activation="tanh"))
        self.weights = [self.weight0, self.weight1]
        self.outer, self.state = nd.ones((3, 4)) * 0.5, nd.ones((3, 4))

    def forward(self, x, y):
        values = [x, y]
        for kind, a, b, number in self.plan["body"]:
            made = STATEMENTS[kind](self, values[a % len(values)], values[b % len(values)], number)
            values.extend(made if isinstance(made, list) else [made])
        results = []
        for kind, a in self.plan["results"]:
            made = RESULTS[kind](self, values[a % len(values)], values[-1])
            results.extend(made if isinstance(made, list) else [made])
        return results[0] if len(results) == 1 else tuple(results)


def make_plan(seed):
    choose = random.Random(seed)

    def number():
        return choose.randrange(12)
    kinds = choose.sample(sorted(STATEMENTS), choose.randrange(2, 7)) + ["weight", "multiply", "add", "tanh"]
    results = choose.sample(sorted(RESULTS), 4) + ["value", "last"]
    drive = ["call"] * 4 + choose.sample(["add", "multiply", "tanh", "detach", "attach"], 2)
    between = ["sentinel"] * 6 + choose.sample(["nothing", "zero_grad", "grad_req", "attach"], 2)
    blocks = [{"body": [(choose.choice(kinds), number(), number(), number()) for _ in range(choose.randrange(1, 6))],
               "results": [(choose.choice(results), number()) for _ in range(choose.choice([1, 2, 2, 3]))], "is_hybridized": choose.random() < 0.85}
              for _ in range(choose.choice([1, 1, 2]))]
    rounds = [{"drive": [(choose.choice(drive), number(), number(), number()) for _ in range(choose.randrange(1, 5))], "train": choose.random() < 0.7,
               "passes": [{"between": (choose.choice(between), number(), number()), "heads": [number() for _ in range(choose.choice([1, 1, 1, 2, 3]))],
                           "head_grad": choose.choice([None, None, "float32", "float64", "int32"]), "retain": choose.random() < 0.6,
                           "how": choose.choice(["backward"] * 4 + ["grad", "second"]), "wanted": [number() for _ in range(choose.choice([1, 1, 2]))]}
                          for _ in range(choose.randrange(1, 5))]} for _ in range(choose.choice([2, 3, 3]))]
    return {"seed": seed, "blocks": blocks, "rounds": rounds, "requests": [choose.choice(["write", "write", "write", "add", "null"]) for _ in range(6)]}


class _Ended(Exception):
    pass


KNOWN_ERRORS = {"was changed in place": "was changed in place", "already been released": "not on the tape", "was not computed inside": "not on the tape",
                "was neither recorded": "no variable", "a tensor with attach_grad() is changed": "a leaf is changed"}


class _Life:
    def __init__(self, plan, flags):
        self.plan, self.seen = plan, []
        mx.random.seed(plan["seed"])
        arrays, requests = np.random.RandomState(plan["seed"]), plan["requests"]
        self.nets = [Net(block) for block in plan["blocks"]]
        for net, block in zip(self.nets, plan["blocks"]):
            net.initialize(mx.init.Uniform(0.7))
            net.outer.attach_grad(requests[0])
            net.weight0.grad_req, net.weight1.grad_req = requests[1:3]
            if flags is not None and block["is_hybridized"]:
                net.hybridize(**flags)
        self.leaves = [nd.array(arrays.normal(size=(3, 4)).astype("float32")) for _ in range(3)]
        for x, request in zip(self.leaves, requests[3:]):
            x.attach_grad(request)
        self.parameters = [p for net in self.nets for p in net.collect_params().values()]

    def run(self):
        for number, part in enumerate(self.plan["rounds"]):
            mx.random.seed(self.plan["seed"] + number)
            values = list(self.leaves)
            try:
                with autograd.record(train_mode=part["train"]):
                    for step in part["drive"]:
                        self.attempt(self.do, values, *step)
                self.seen.append([v.asnumpy().copy() for v in values])
                for one in part["passes"]:
                    self.between(number, *one["between"])
                    self.attempt(self.go_back, values, one, part["train"])
                    self.seen.append([None if v.grad is None else (v.grad.asnumpy().copy(), v._fresh_grad) for v in self.with_gradients(values)])
                    self.seen.append([None if p.grad_req == "null" else p.grad().tostype("default").asnumpy().copy() for p in self.parameters])
            except _Ended:
                break
        self.seen.append([[net.state.asnumpy().copy(), net.outer.asnumpy().copy()] for net in self.nets])
        self.seen.append(nd.random.uniform(shape=(2,)).asnumpy())
        return self.seen

    def with_gradients(self, values):
        return values + [net.outer for net in self.nets]

    def attempt(self, function, *args):
        try:
            function(*args)
        except mx.MXNetError as error:
            self.seen.append(("error", next((kind for text, kind in KNOWN_ERRORS.items() if text in str(error)), str(error)[:60])))
            raise _Ended from error

    def do(self, values, kind, a, b, number):
        fitting = [v for v in values if v.shape == (3, 4) and v.dtype == np.float32]
        x, y = fitting[a % len(fitting)], fitting[b % len(fitting)]
        if kind == "call":
            made = self.nets[number % len(self.nets)](x, y)
            values.extend(made if isinstance(made, tuple) else [made])
        elif kind == "attach":
            if x.grad is None:
                x.attach_grad()
        else:
            values.append({"add": x + y, "multiply": x * y, "tanh": nd.tanh(x), "detach": x.detach() * y}[kind])

    def between(self, number, kind, a, b):
        request = ["write", "add", "null"][b % 3]
        if kind == "sentinel":
            for v in self.with_gradients(self.leaves):
                if v.grad is not None:
                    v.grad[:] = 100 + number
                    v._fresh_grad = False
            for p in self.parameters:
                if p.grad_req != "null":
                    p.zero_grad()
        elif kind == "zero_grad":
            self.nets[a % len(self.nets)].collect_params().zero_grad()
        elif kind == "grad_req":
            self.parameters[a % len(self.parameters)].grad_req = request
        elif kind == "attach":
            self.leaves[a % 3].attach_grad(request)

    def go_back(self, values, one, train):
        heads = [values[h % len(values)] for h in one["heads"]]
        dtype = one["head_grad"]
        grads = [None if dtype is None else nd.ones(h.shape, dtype=dtype) * 2 for h in heads]
        if one["how"] == "backward":
            return autograd.backward(heads, grads, retain_graph=one["retain"])
        candidates = self.with_gradients(values) + [p.data() for p in self.parameters]
        wanted = [candidates[k * 5 % len(candidates)] for k in one["wanted"]]
        is_second = one["how"] == "second"
        with autograd.record(train_mode=train) if is_second else autograd.pause(train_mode=train):
            found = autograd.grad(heads, wanted, grads, retain_graph=is_second or one["retain"], create_graph=is_second)
            total = sum((g.astype("float32") ** 2).sum() for g in found) if is_second else None
        self.seen.append([g.asnumpy().copy() for g in found])
        return total.backward(retain_graph=one["retain"]) if is_second else None


def run(plan, flags=None):
    return _Life(plan, flags).run()
