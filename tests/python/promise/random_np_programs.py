"""Random functions of mx.np over arrays of all kinds of numbers: what hybrid() gives of them, and leaves in them, is what they give."""
import random
import warnings

import numpy as onp

import gluino as mx
from gluino import autograd, np, npx

DTYPES = ["float32", "float32", "float32", "float64", "float16", "int32", "int64", "int8", "uint8", "bool"]
SHAPES = [(3, 4), (3, 4), (3, 4), (4,), (1, 4), (3, 1), (2, 3, 4), (), (1,), (0, 4), (12,)]

UNARY = ["np.abs({})", "np.exp({} * 0.1)", "np.sqrt(np.abs({}))", "np.square({})", "np.sign({})", "np.floor({})", "np.ceil({})", "np.rint({})", "np.trunc({})", "-{}", "~({} > 0)",
         "np.tanh({})", "npx.relu({})", "npx.sigmoid({})", "{}.astype('float32')", "{}.astype('int32')", "{}.astype('float16')", "{}.astype(bool)", "np.cumsum({}.reshape(-1))", "np.sort({}, axis=-1)",
         "np.argsort({}.reshape(-1))", "np.flip({})", "{}.reshape(-1)", "{}.T", "np.expand_dims({}, 0)", "np.squeeze({})", "{}.copy()", "np.ones_like({})", "np.zeros_like({})", "np.full_like({}, 2)",
         "np.isnan({})", "np.logical_not({})", "np.clip({}, 0, 2)", "np.where({} > 0, {}, 0)", "{}[...]", "np.roll({}, 1)", "np.repeat({}, 2)", "np.tile({}, 2)", "np.diff({}.reshape(-1))", "np.round({}, 1)",
         "np.nan_to_num({})", "np.log1p(np.abs({}))", "np.reciprocal({} + 0.5)", "np.degrees({})", "np.arctan({})", "np.cbrt({})", "np.atleast_2d({})", "np.ravel({})", "npx.softmax({} * 1.0)", "np.invert({}.astype('int32'))"]
BINARY = ["{} + {}", "{} - {}", "{} * {}", "{} / {}", "{} // {}", "{} % {}", "{} ** 2 + {}", "np.maximum({}, {})", "np.minimum({}, {})", "{} > {}", "{} == {}", "{} <= {}", "{} != {}", "np.logical_and({}, {})",
          "np.logical_or({}, {})", "np.arctan2({}, {})", "np.hypot({}, {})", "np.where({} > 1, {}, 3)", "np.fmod({}, {})", "np.copysign({}, {})", "np.fmax({}, {})", "({} > 0) & ({} > 0)", "({} > 0) ^ ({} > 0)",
          "np.stack([{}, {}])", "np.concatenate([{}.reshape(-1), {}.reshape(-1)])", "np.dot({}.reshape(-1)[:2], {}.reshape(-1)[:2])", "np.outer({}.reshape(-1), {}.reshape(-1))",
          "np.bitwise_and({}.astype('int32'), {}.astype('int32'))", "np.ldexp({} * 1.0, 2) + {}", "np.true_divide({}, {})", "np.append({}, {})", "np.isin({}.reshape(-1), {}.reshape(-1))"]
NUMBERS = ["2", "0.5", "-1", "True", "1e3", "3", "-0.25", "onp.float32(1.5)", "onp.int64(2)", "7", "255", "300", "1.0", "0", "-0.0"]
WITH_NUMBER = ["{} + {}", "{} - {}", "{} * {}", "{} / {}", "{} // {}", "{} % {}", "{} > {}", "{} == {}", "np.maximum({}, {})", "np.where({} > {}, 1, 0)", "np.full_like({}, {})", "np.power(np.abs({}) + 1, {})"]
REVERSED = ["{} + {}", "{} - {}", "{} * {}", "{} / ({} + 0.5)", "{} < {}", "np.minimum({}, {})"]
REDUCED = ["np.sum({}{})", "np.mean({}{})", "np.max({}{})", "np.min({}{})", "np.prod({}{})", "np.std({}{})", "np.var({}{})", "np.argmax({}{})", "np.argmin({}{})", "np.any({}{})", "np.all({}{})",
           "np.count_nonzero({}{})", "np.median({}{})", "np.linalg.norm({}{})", "{}.sum(dtype='float64'{})", "np.nanmax({}{})"]
INDICES = ["[0]", "[-1]", "[..., 0]", "[..., -1]", "[0:2]", "[::2]", "[::-1]", "[None]", "[..., None]", "[1:, ...]", "[[0, 1]]", "[[0, -1, 0]]", "[..., [0, 1]]", "[(0,)]", "[np.array([0, 1])]", "[{} > 0]", "[0:0]", "[1:2]", "[0, ...]",
           "[{}.sum() > 0]", "[True]", "[-2:]"]
IN_PLACE = ["{} += {}", "{} -= {}", "{} *= {}", "{} /= {}", "{} //= {}", "{} %= {}", "{}[...] = {}", "{}[0] = {}", "{}[-1:] = {}", "{}[{} > 0] = {}", "{}[..., 0] = {}", "{}[0:2] += {}", "{} **= {}"]


class Program:
    def __init__(self, seed):
        choose = self.choose = random.Random(seed)
        self.seed = seed
        self.dtypes = [choose.choice(DTYPES) for _ in range(3)]
        shape = choose.choice(SHAPES)
        self.shapes = [shape if choose.random() < 0.7 else choose.choice(SHAPES) for _ in range(3)]
        self.names, lines = ["x", "y", "z"], []
        for _ in range(choose.randrange(2, 7)):
            lines.append(self.statement())
        results = choose.sample(self.names, min(len(self.names), 4))
        if self.names[-1] not in results:
            results.append(self.names[-1])
        lines.append(f"return [{', '.join(results)}]")
        self.source = "def f(x, y, z):\n" + "".join(f"    {line}\n" for line in lines)
        self.records = choose.random() < 0.4

    def name(self):
        return self.choose.choice(self.names[-4:]) if self.choose.random() < 0.7 else self.choose.choice(self.names)

    def filled(self, template):
        out = ""
        parts = template.split("{}")
        last = self.name()
        for i, part in enumerate(parts):
            out += part
            if i + 1 < len(parts):
                out += last if self.choose.random() < 0.3 else self.name()
        return out

    def statement(self):
        choose = self.choose
        kind = choose.random()
        if kind < 0.25:
            a = self.name()
            text = choose.choice(UNARY).replace("{}", a)
        elif kind < 0.45:
            text = self.filled(choose.choice(BINARY))
        elif kind < 0.6:
            number = choose.choice(NUMBERS)
            text = choose.choice(WITH_NUMBER).format(self.name(), number) if choose.random() < 0.6 else choose.choice(REVERSED).format(number, self.name())
        elif kind < 0.72:
            axis = choose.choice(["", "", ", axis=-1", ", axis=0", ", axis=0, keepdims=True"])
            text = choose.choice(REDUCED).format(self.name(), axis)
        elif kind < 0.82:
            a = self.name()
            text = a + choose.choice(INDICES).replace("{}", a)
        elif kind < 0.95:
            target = self.name()
            value = choose.choice([self.name(), choose.choice(NUMBERS)])
            template = choose.choice(IN_PLACE)
            if template.count("{}") == 3:
                return template.format(target, target, value)
            return template.format(target, value)
        elif kind < 0.975:
            text = f"{self.name()} * (2 if {self.name()}.sum() > 1 else 3)"
        else:
            text = f"{self.name()} + len({self.name()}.shape) + int({self.name()}.size)"
        new = f"v{len(self.names) - 3}"
        self.names.append(new)
        return f"{new} = {text}"

    def inputs(self, call):
        arrays = onp.random.RandomState(self.seed * 7 + call % 3)
        out = []
        for dtype, shape in zip(self.dtypes, self.shapes):
            if dtype == "bool":
                values = arrays.rand(*shape) > 0.5
            elif "int" in dtype:
                values = arrays.randint(0 if dtype[0] == "u" else -3, 5, shape)
                if self.seed % 3 == 0 and values.size:
                    limits = onp.iinfo(dtype)
                    flat = values.reshape(-1).astype(dtype)
                    for k in range(0, flat.size, 2):
                        flat[k] = arrays.choice([limits.max, limits.min, limits.max - 1, limits.min + 1, limits.max // 2, 0, 100])
                    values = flat.reshape(shape)
            else:
                values = onp.asarray(arrays.normal(size=shape)).round(2) * 2
                if call % 3 == 2 and values.size > 1:
                    values.reshape(-1)[1] = arrays.choice([onp.nan, onp.inf, -0.0, 0.0])
                if self.seed % 3 == 1 and values.size > 2 and not self.records:  # differences of such numbers are all rounding
                    values.reshape(-1)[::3] = arrays.choice([1e30, -1e30, 1e-40, 65504.0, 1e-8, 2.0**31, 2.0**53, -2.0**63, 300.0, -129.0, 1e300], values.reshape(-1)[::3].shape)
            out.append(np.array(values, dtype=dtype))
        return out

    def run(self, wrap, count=4):
        names = {"np": np, "npx": npx, "mx": mx, "onp": onp}
        exec(compile(self.source, f"np{self.seed}", "exec"), names)
        f = wrap(names["f"])
        seen = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for call in range(count):
                arrays = self.inputs(call)
                leaves = []
                try:
                    if self.records:
                        leaves = [a for a, dtype in zip(arrays, self.dtypes) if "float" in dtype]
                        for leaf in leaves:
                            leaf.attach_grad()
                        with autograd.record():
                            given = [a * 1 if any(a is leaf for leaf in leaves) else a for a in arrays]
                            results = f(*given)
                            total = None
                            for r in results:
                                if isinstance(r, np.ndarray) and "float" in str(r.dtype) and mx._core.is_recorded(r):
                                    part = (r.astype("float64") ** 2).sum()
                                    total = part if total is None else total + part
                        arrays = given
                    else:
                        results = f(*arrays)
                        total = None
                    seen.append([observed(r) for r in results])
                    seen.append([observed(a) for a in arrays])
                    if total is not None:
                        total.backward()
                        seen.append([observed(leaf.grad) for leaf in leaves])
                except Exception as error:
                    seen.append(("error", type(error).__name__, any(text in str(error) for text in LOST)))
        return seen


def observed(value):
    if isinstance(value, (mx.nd.NDArray, np.ndarray)):
        return type(value).__name__, str(value.dtype), value.asnumpy()
    return type(value).__name__, value


LOST = ("was changed in place after it was recorded", "has already been released")


def agree(a, b):
    """Whether two observations are the same, numbers up to rounding."""
    if isinstance(a, onp.ndarray) and isinstance(b, onp.ndarray):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.dtype.kind != "f":
            return onp.array_equal(a, b)
        # Gradients of halves may be differences of large numbers.
        relative, absolute = (2e-2, 0.3) if a.dtype == onp.float16 else (1e-4, 1e-5)
        with onp.errstate(all="ignore"):
            return onp.allclose(a, b, relative, absolute, equal_nan=True)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(agree(p, q) for p, q in zip(a, b))
    return type(a) is type(b) and (a == b or a != a)
