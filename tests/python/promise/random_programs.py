"""Random networks as source text, with a random history of calls: what users write, in all combinations.

Program(seed).run(flags) gives all that a user could see; it must be the same for every flags.
"""
import collections
import random
import warnings

import numpy as np

import gluino as mx
from gluino import autograd, gluon, nd
from gluino.gluon import nn

Pair = collections.namedtuple("Pair", "a b")
SHAPE = (3, 4)  # of arrays; with another number of rows at each call in every third program

NAN = float("nan")
# Arguments that are no arrays; weight() in the programs makes a number of any of them.
ARGUMENTS = [1, 1.0, True, 2, 1e-3, 2e-3, -0.0, "a", "bc", None, (1, 2), [1, 2], Pair(1, 2), {"k": 3}, {"j": 3}, b"x", float("nan"), NAN, np.float32(0.5), np.float64(0.5),
             np.arange(3), np.arange(3.0), slice(1, 3), range(3), frozenset({1, 2}), np.dtype("int8"), len, (1, (2, [3]))]

PRELUDE = '''
GLOBAL = 1.0

def weight(value):
    name = type(value).__name__
    if value is None or callable(value):
        return len(name) * 0.1
    if isinstance(value, float) and value != value:
        return 0.7
    if isinstance(value, (bool, int, float, np.generic)):
        return float(value) + len(name) * 0.01
    if isinstance(value, np.ndarray):
        return float(value.sum()) * 0.1 + value.itemsize * 0.01
    if isinstance(value, slice):
        return value.start * 0.1
    if isinstance(value, dict):
        return sum(weight(k) + weight(v) for k, v in value.items()) + 0.05
    if isinstance(value, (str, bytes)):
        return len(value) * 0.2 + len(name) * 0.01
    if isinstance(value, np.dtype):
        return value.itemsize * 0.3
    return sum(weight(v) for v in value) * 0.1 + len(name) * 0.01

def scaled(x):
    return x * GLOBAL + closed_over()

class Square(autograd.Function):
    def forward(self, x):
        y = x * x
        self.save_for_backward(x)
        self.kept = x + 1
        return y

    def backward(self, dy):
        return dy * self.saved_tensors[0] * 3 + self.kept * 0.1

class Nothing(autograd.Function):
    def forward(self, x):
        return None

    def backward(self, dy):
        return dy

def closure():
    value = 0.5

    def get():
        return value

    def put(new):
        nonlocal value
        value = new
    return get, put
closed_over, set_closed_over = closure()
'''


class _Writer:
    """Writes one forward()."""

    def __init__(self, choose):
        self.choose = choose
        self.lines, self.indent = [], "        "
        self.values = ["x", "y"]
        self.is_pure = True  # a graph of its inputs alone, which can be exported
        self.layers = 0

    def line(self, text):
        self.lines.append(self.indent + text)

    def value(self):
        return self.choose.choice(self.values)

    def new(self, expression):
        name = f"v{len(self.values)}"
        self.line(f"{name} = {expression}")
        self.values.append(name)

    def inside(self, header, write):
        self.line(header)
        self.indent += "    "
        known = list(self.values)
        write()
        self.values = known + [v for v in self.values if v not in known] if header.startswith("with") else known
        self.indent = self.indent[:-4]

    # ---- statements; the names of those that keep a program a pure graph begin with pure_

    def pure_elementwise(self):
        a, b = self.value(), self.value()
        self.new(self.choose.choice([f"{a} + {b}", f"{a} * 0.5 - {b}", f"F.relu({a})", f"F.tanh({a}) * {b}", f"F.sigmoid({a} - 1)", f"-{a}",
                                     f"{a} * F.mean({b}, axis=1, keepdims=True)", f"F.broadcast_add({a}, {b})", f"F.clip({a}, -2, 2)"]))

    def pure_shape(self):
        a = self.value()
        self.new(self.choose.choice([f"{a}.reshape((-1,)).reshape((-1, 4))", f"F.transpose(F.transpose({a}))", f"F.concat({a}, {a}[:, 0:2], dim=1)[:, 0:4]"
                                     if not self.is_pure else f"F.slice_axis(F.concat({a}, {a}, dim=1), axis=1, begin=0, end=4)", f"F.flip({a}, axis=0)",
                                     f"F.slice_like(F.concat({a}, {a}, dim=0), {a}, axes=(0,))"]))

    def pure_layer(self):
        self.layers = min(self.layers + 1, 2)
        self.new(f"self.layer{self.choose.randrange(self.layers)}({self.value()})")

    def pure_dropout(self):
        self.new(f"F.Dropout({self.value()}, p=0.5)")

    def argument(self):
        self.new(f"{self.value()} * (weight(argument) % 3)")

    def keyword(self):
        self.new(f"{self.value()} + weight(option) % 2")

    def index(self):
        a = self.value()
        self.new(self.choose.choice([f"{a} + {a}[{self.choose.randrange(3)}]", f"{a} + {a}[-1]", f"{a} - {a}[:, -2:].sum()", f"{a} * {a}[-2:].mean()", f"{a} + {a}[::2].sum()"]))

    def in_place(self):
        target = self.choose.choice(self.values + ["self.state"])
        change = self.choose.choice(["{} += 0.25", "{} *= 0.5", "{}[0] = 0.75", "{}[:] = {} * 0.5 + 1", "{}[1:3] = {}[0:2] * 0.5"])
        self.line(change.replace("{}", target))

    def view(self):
        a = self.value()
        self.line(f"part = {a}[1]")
        self.line("part += 0.5")
        self.new(f"{a} + part")

    def alias(self):
        """A view, a change of either side, perhaps under pause, and a look at both."""
        a, b = self.value(), self.value()
        self.line("view = " + self.choose.choice([f"{a}.reshape((4, -1))", f"{a}[1]", f"{a}[0:2]", f"{a}.detach()", f"{a}.detach()[2]"]))
        change = self.choose.choice([f"{a} *= 0.5", f"{a}[1] = {b}[0]", f"{a}[:] = {b} * 0.5", "view *= 0.5", "view[:] = view * 0.25 + 1", f"view += {b}.mean()"])
        if self.choose.random() < 0.4:
            self.inside("with autograd.pause():", lambda: self.line(change))
        else:
            self.line(change)
        self.new(f"{a} + view.sum()")

    def weight_under_pause(self):
        self.inside("with autograd.pause():", lambda: self.line("self.weight_array[:] = self.weight_array * 0.5"))
        self.new(f"{self.value()} * self.weight_array")

    def state(self):
        self.new(f"{self.value()} + self.state")

    def attribute(self):
        self.new(self.choose.choice([f"{self.value()} * self.scale", f"{self.value()} + self.table['k']", f"{self.value()} + sum(self.numbers)",
                                     f"scaled({self.value()})", f"{self.value()} * self.weight_array"]))

    def keep(self):
        a = self.value()
        self.line(self.choose.choice([f"self.last = {a}.mean()", f"self.last = [{a} * 2, {a}.shape]", f"self.hidden = self.hidden * 0.5 + {a} * 0.1",
                                      f"self.hidden = F.tanh(self.hidden + {a})"]))
        if self.choose.random() < 0.5:
            self.new(f"self.hidden + {a}")

    def count(self):
        self.line(self.choose.choice(["self.calls += 1", "self.history.append(1)"]))

    def mode(self):
        header = self.choose.choice(["with autograd.pause():", "with autograd.predict_mode():", "with autograd.train_mode():",
                                     "with autograd.pause(train_mode=True):", "with autograd.record():"])
        self.inside(header, lambda: [self.pure_elementwise(), self.pure_dropout()])

    def asks_mode(self):
        self.new(f"{self.value()} + (1 if autograd.is_training() else 2) + (0.5 if autograd.is_recording() else 0)")

    def function(self):
        self.new(f"Square()({self.value()})")

    def gradient_inside(self):
        self.line(f"leaf = {self.value()} * 1")
        self.line("leaf.attach_grad()")
        self.inside("with autograd.record():", lambda: self.line("inner = (leaf * leaf * 0.5).sum()"))
        self.line("inner.backward()")
        self.new("leaf.grad * 1")

    def branch(self):
        a = self.value()
        self.new(f"{a} * 1")
        target = self.values[-1]
        self.inside(f"if {a}.sum() > {self.choose.uniform(-3, 3):.2f}:", lambda: self.line(f"{target} = {target} * 2"))
        self.inside("else:", lambda: self.line(f"{target} = F.relu({target})"))

    def number(self):
        self.new(f"{self.value()} * min(abs(float({self.value()}.max().asscalar())), 2)")

    def caught_error(self):
        a, b = self.value(), self.value()
        self.new(f"{a} * 1")
        target = self.values[-1]
        failing = self.choose.choice([f"F.dot({a}, {b})", f"F.concat({a}, {b}[0], dim=0)", f"Nothing()({a}) * 2", f"{a} + F.zeros((2, 2))"])
        self.inside("try:", lambda: self.line(f"{target} = {failing}"))
        self.inside("except Exception:", lambda: self.line(f"{target} = {target} * 0.75"))

    def loop_with_effects(self):
        a, b = self.value(), self.value()
        effect = self.choose.choice(["self.calls += 1", "self.history.append(2)", "pass"])
        self.inside("def body(row, state):", lambda: [self.line(effect), self.line("return row * (1 + len(self.history) * 0.1) + state, state * 0.5 + row")])
        self.new(f"F.contrib.foreach(body, {a}, {b}[0])[0] + self.state")

    def branch_with_effects(self):
        a, b = self.value(), self.value()
        self.inside("def then_branch():", lambda: [self.line("self.history.append(3)"), self.line(f"return {a} * 2")])
        self.inside("def else_branch():", lambda: self.line(f"return {b} * 0.5"))
        self.new(f"F.contrib.cond({a}.sum() > {b}.sum(), then_branch, else_branch)")

    def rows_of_loop(self):
        a = self.value()
        self.line(f"rows, ends = F.contrib.while_loop(lambda v: (v * v).sum() < 30, lambda v: (v * 0.5, [v * 1.5 + 0.25]), [{a}], max_iterations=4)")
        self.new("ends[0] + rows.sum() * rows.shape[0]")

    def loop_that_updates(self):
        """The state or a value from outside, which may have been updated before, or what the body was given."""
        a, b = self.value(), self.value()
        self.line(f"outside = {a} * 0.5")
        if self.choose.random() < 0.5:
            self.line(self.choose.choice(["self.state += 0.125", "outside[0] = 0.25"]))
        change = self.choose.choice(["self.state *= 0.75", "self.state[0] = row", "outside[:] = outside + row", "outside[1] = state * 0.5", "state += 0.25", "row *= 2"])
        rest = self.choose.choice(["", "state * 0.1 + "])
        self.inside("def body(row, state):", lambda: [self.line(change), self.line(f"return row + {rest}self.state[0], state * 0.5 + row")])
        self.new(f"F.contrib.foreach(body, {a}, {b}[0] * 1)[0] + self.state + outside")

    def branch_that_passes_on(self):
        a, b = self.value(), self.value()
        self.line(f"outside = {a} * 0.5")
        self.line(f"passed = F.contrib.cond({a}.sum() > {b}.sum(), lambda: outside, lambda: {b} * 2)")
        self.line(self.choose.choice(["passed += 0.5", "outside *= 0.5", "passed[0] = 0.25", "pass"]))
        self.new("passed + outside")

    def function_without_heads(self):
        self.new(f"F.sign(Square()({self.value()})) + {self.value()}")

    def not_a_number(self):
        """Only the very object is in the tuple."""
        self.new(f"{self.value()} * (2 if isinstance(argument, (float, str)) and argument in (NAN, 1, 'a') else 0.5)")

    def gradient_of_a_value(self):
        a, b = self.value(), self.value()
        self.line(f"middle = {a} * 0.5")
        self.line("middle.attach_grad()")
        self.new(f"middle * {b}")

    def facts_of_parameters(self):
        self.layers = max(self.layers, 1)
        self.new(f"self.layer0({self.value()}) * self.layer0[0].weight.lr_mult")

    def identity(self):
        a, b = self.value(), self.value()
        self.new(self.choose.choice([f"{a} * (2 if {a} is {b} else 3)", f"{a} * len({{{a}: 1, {b}: 2}})", f"{a} + len(str({b}.shape)) * 0.1"]))

    def result(self):
        a, b = self.values[-1], self.value()
        if self.is_pure:
            return f"{a} + x * 0.5 - y * 0.25"  # both stay inputs of the exported graph
        structures = [a, f"({a}, [{b}, 2.5])", f"{{'a': {a}, 'b': ({b}, None)}}", f"[{a}, {a}.shape, 'text']", f"Pair({a}, {b})", f"({a}, x)", f"({a}, {b}[0:2])",
                      f"({a} * 2, {a} * 2)", f"[{a}, {a} + 0, {a}.reshape((-1,)), {b} * 1, {a} + 0]", f"{a} if {b}.sum() > 0 else [{a}, {b}]", f"[{a}] * int({b}.max().asscalar() > 1) + [{b}]", f"({a}, argument)", f"({a}, self.state)"]
        return self.choose.choice(structures)


PURE = ["pure_elementwise", "pure_elementwise", "pure_shape", "pure_layer", "pure_dropout"]
OTHERS = ["argument", "keyword", "index", "in_place", "view", "alias", "weight_under_pause", "state", "attribute", "keep", "count", "mode", "asks_mode", "function", "gradient_inside",
          "branch", "number", "caught_error", "loop_with_effects", "branch_with_effects", "rows_of_loop", "gradient_of_a_value",
          "facts_of_parameters", "identity", "loop_that_updates", "branch_that_passes_on", "function_without_heads", "not_a_number"]


def _observed(value):
    if isinstance(value, (nd.NDArray, mx.sym.Symbol)):
        if isinstance(value, mx.sym.Symbol):
            raise AssertionError("a Symbol is left where an array should be")
        return str(value.context), value.asnumpy().copy()
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [_observed(v) for v in value]
    if isinstance(value, dict):
        return "dict", [(k, _observed(v)) for k, v in value.items()]
    return type(value).__name__, value


def agree(a, b):
    """Whether two observations are the same, numbers up to rounding."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and np.allclose(a, b, 1e-3, 1e-4, equal_nan=True)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(agree(p, q) for p, q in zip(a, b))
    if isinstance(a, float) and isinstance(b, float):
        return np.isclose(a, b, 1e-3, 1e-4, equal_nan=True)
    return type(a) is type(b) and (a is b or bool(a == b))


# Eager code sees at backward that what it needs is gone; a compiled program may still have it.
LOST = ("was changed in place after it was recorded", "has already been released")


class Program:
    """A network and the calls that are made of it."""

    def __init__(self, seed):
        self.seed = seed
        self.varies = seed % 3 == 0
        self.shape = (1, 4) if self.varies else SHAPE  # of what the network keeps: it is spread over the rows of a call
        choose = random.Random(seed)
        writer = _Writer(choose)
        statements = PURE if choose.random() < 0.15 else PURE + choose.sample(OTHERS, choose.randrange(1, 5)) * 2
        writer.is_pure = statements is PURE
        for _ in range(choose.randrange(2, 7)):
            getattr(writer, choose.choice(statements))()
        writer.line(f"return {writer.result()}")
        self.is_pure, self.layers = writer.is_pure, writer.layers
        header = "def hybrid_forward(self, F, x, y, argument=None, option=None):" if choose.random() < 0.5 or self.is_pure else \
            "def forward(self, x, y, argument=None, option=None):\n        F = nd if isinstance(x, nd.NDArray) else mx.sym"
        self.source = PRELUDE + f"\nclass Net(gluon.HybridBlock):\n    {header}\n" + "\n".join(writer.lines) + "\n"
        self.history = [self._step(choose) for _ in range(choose.randrange(3, 8))]
        # Every seventh lives on another device than the first, and half of these are called by code that is on the first.
        self.home, self.callers = mx.cpu(int(self.seed % 7 == 3)), mx.cpu(int(self.seed % 14 == 3))

    def _step(self, choose):
        kinds = ["call"] * 6 + ["scale", "table", "global", "closure", "array", "hook", "grad_req", "hidden", "state", "forward", "lr_mult"] if not self.is_pure else ["call"]
        return {"kind": choose.choice(kinds), "mode": choose.choice(["predict", "record", "record", "record_predict", "second"]), "value": choose.choice([0.5, 2, 3.0]),
                "argument": choose.randrange(len(ARGUMENTS)), "option": choose.choice([None, choose.randrange(len(ARGUMENTS))]),
                "inputs": choose.choice(["new", "new", "same", "twice", "rows"]), "later": choose.random() < 0.3, "seed": choose.randrange(1000), "rows": choose.choice([2, 3, 3, 5, 1])}

    def _net(self):
        names = {"np": np, "nd": nd, "mx": mx, "gluon": gluon, "autograd": autograd, "Pair": Pair, "NAN": NAN}
        exec(compile(self.source, f"program{self.seed}", "exec"), names)
        net = names["Net"]()
        net.scale, net.table, net.numbers, net.history, net.calls = 0.5, {"k": 1.5}, [0.25, 0.5], [], 0
        net.state, net.weight_array, net.hidden, net.last = nd.ones(self.shape), nd.ones((4,)) * 0.5, nd.zeros(self.shape), None
        for i in range(self.layers):
            layer = nn.HybridSequential()
            layer.add(nn.Dense(4, flatten=False, in_units=0 if self.seed % 2 else 4), nn.Dropout(0.25))
            setattr(net, f"layer{i}", layer)
        return net, names

    def run(self, flags=None):
        """All that can be seen; flags of hybridize, or None for eager."""
        with self.home:
            return self._run(flags)

    def _run(self, flags):
        mx.random.seed(self.seed)
        net, names = self._net()
        net.initialize(mx.init.Uniform(0.5))
        if flags is not None:
            net.hybridize(**flags)
        seen, waiting = [], []
        arrays = np.random.RandomState(self.seed)
        base = nd.array(arrays.normal(size=(8, 4)).astype("float32"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for step in self.history:
                try:
                    self._do(step, net, names, arrays, base, seen, waiting)
                except mx.MXNetError as error:
                    seen.append(("error", type(error).__name__, any(text in str(error) for text in LOST)))
                    break
            for y, x in waiting:
                try:
                    y.backward()
                    seen.append(_observed(x.grad))
                except mx.MXNetError as error:
                    seen.append(("error", type(error).__name__, any(text in str(error) for text in LOST)))
        seen.append([_observed(getattr(net, name)) for name in ("state", "hidden", "last", "calls", "history", "scale", "table", "numbers")])
        seen.append([_observed(p.data()) for p in net.collect_params().values() if p._data is not None])
        seen.append(_observed(nd.random.uniform(shape=(2,))))
        return seen, net

    def _do(self, step, net, names, arrays, base, seen, waiting):
        kind, value = step["kind"], step["value"]
        if kind == "call":
            return self._call(step, net, arrays, base, seen, waiting)
        if kind == "scale":
            net.scale = value
        elif kind == "table":
            net.table["k"] = value
            net.numbers.append(value)
        elif kind == "global":
            names["GLOBAL"] = value
        elif kind == "closure":
            names["set_closed_over"](value)
        elif kind == "array":
            net.weight_array = nd.ones((4,)) * value
        elif kind == "hidden":
            net.hidden = nd.ones(self.shape) * value
        elif kind == "state":
            net.state = nd.ones(self.shape) * value
        elif kind == "hook" and self.layers:
            net.layer0.register_forward_hook(lambda block, inputs, out: seen.append(_observed(out)))
        elif kind == "forward":
            if "forward" in net.__dict__:
                del net.forward
            else:
                net.forward = lambda x, y, argument=None, option=None: x * value + y
        elif kind == "lr_mult" and self.layers:
            net.layer0[0].weight.lr_mult = value
        elif kind == "grad_req" and self.layers:
            net.layer0[0].weight.grad_req = {0.5: "null", 2: "add", 3.0: "write"}[value]
        return None

    def _inputs(self, step, arrays, base):
        rows = step["rows"] if self.varies else SHAPE[0]
        x = nd.array(arrays.normal(size=(rows, 4)).astype("float32"))
        if step["inputs"] == "same":
            return x, x
        if step["inputs"] == "twice":
            return base[0:rows], base[0:rows]
        if step["inputs"] == "rows":
            return base[0:rows], base[2:2 + rows]
        return x, nd.array(arrays.normal(size=x.shape).astype("float32"))

    def _call(self, step, net, arrays, base, seen, waiting):
        x, y = self._inputs(step, arrays, base)
        more = {} if step["option"] is None else {"option": ARGUMENTS[step["option"]]}
        arguments = (x, y) if self.is_pure else (x, y, ARGUMENTS[step["argument"]])
        mx.random.seed(step["seed"])
        if step["mode"] == "predict":
            with self.callers:
                out = net(*arguments, **({} if self.is_pure else more))
            seen.append(_observed(out))
        else:
            source = nd.array(arrays.normal(size=x.shape).astype("float32"))
            source.attach_grad()
            with autograd.record(train_mode=step["mode"] != "record_predict"):
                with self.callers:
                    out = net(x + source, *arguments[1:], **({} if self.is_pure else more))
                heads = [v for v in _arrays_in(out) if mx._core.is_recorded(v)]
                total = sum(((h * h).sum() for h in heads[1:]), (heads[0] * heads[0]).sum()) if heads else None
                second = autograd.grad(total, [source], create_graph=True)[0] if step["mode"] == "second" and total is not None else None
            seen.append(_observed(out))
            if second is not None:
                seen.append(_observed(second))
            if total is not None and step["later"]:
                waiting.append((total, source))
            elif total is not None:
                total.backward()
                seen.append(_observed(source.grad))
                seen.append([_observed(p.grad()) for p in net.collect_params().values() if p.grad_req != "null" and p._data is not None])
        seen.append([_observed(x), _observed(y), _observed(base)])
        if step["seed"] % 3 == 0:  # a result is perhaps something else, too
            with autograd.pause():
                for k, array in enumerate(_arrays_in(out)):
                    array[:] = array * 0.5 + k
            seen.append([_observed(v) for v in (out, x, y, base, net.state, net.hidden, net.last, net.history)])


def _arrays_in(value):
    if isinstance(value, nd.NDArray):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _arrays_in(item)
