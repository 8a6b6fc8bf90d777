"""Every public function and class is given nonsense: it may refuse it in words of its own, but never crashes, hangs or fails inside.

GLUINO_NONSENSE=25 for a long run (calls of each name)."""
import os
import subprocess
import sys

import pytest

CALLS = os.environ.get("GLUINO_NONSENSE", "6")
MODULES = ["nd", "nd.contrib", "nd.linalg", "nd.random", "nd.image", "nd.sparse", "np", "np.linalg", "np.random", "npx", "gluon.nn", "gluon.rnn", "gluon.loss",
           "gluon.data", "gluon.data.vision.transforms", "gluon.contrib.nn", "gluon.contrib.rnn", "optimizer", "metric", "initializer", "image", "io",
           "recordio", "kv", "random", "autograd", "lr_scheduler", "callback"]


@pytest.mark.parametrize("modules", [MODULES[k::4] for k in range(4)], ids=lambda names: names[0])
def test_nonsense_is_refused_or_answered(modules, tmp_path):
    done = subprocess.run([sys.executable, os.path.abspath(__file__), CALLS, *modules], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    said = "\n".join((tmp_path / name).read_text() for name in ("faults", "last_call") if (tmp_path / name).exists())
    assert done.returncode == 0, f"{said}\n{done.stderr[-3000:]}"


# ---- in a process of its own

def walk(calls, names):
    import faulthandler
    import inspect
    import random
    import signal
    import warnings

    import numpy as onp

    import gluino as mx
    faulthandler.enable()
    warnings.simplefilter("ignore")
    chance = random.Random(1)
    # They write where they are told to, wait for others, change the whole process, or loop as often as they are told to in Python.
    left_out = {"save", "savez", "download", "waitall", "set_np", "reset_np", "use_np", "seed", "set_np_shape", "Custom", "genfromtxt", "from_dlpack"}
    layers_in_a_loop = {"RNN", "LSTM", "GRU"}
    numbers = [None, -1, 0, 1, 2, 3, 7, True, -2**31, 2**40, 2**62, -2**62, 2**64, 0.5, -1.5, 1e30, float("nan"), float("inf")]
    words = ["", "x", "relu", "float32", "int8", "NCHW", "same", b"abc", "a" * 300]
    others = [object(), len, {}, {"a": 1}, type, mx.cpu(), slice(None), Ellipsis, onp.float32(2), onp.arange(3)]

    def array(is_numpy):
        shape = chance.choice([(), (0,), (1,), (3,), (2, 3), (0, 3), (2, 0), (1, 3, 4, 4), (2, 3, 4), (1, 1, 1, 1, 1), (2, 2)])
        dtype = chance.choice(["float32", "float64", "int32", "int64", "uint8", "float16"])
        values = onp.random.RandomState(chance.randrange(1 << 30)).uniform(-3, 3, shape).astype(dtype)
        return mx.np.array(values, dtype=dtype) if is_numpy else mx.nd.array(values.reshape(shape or (1,)), dtype=dtype)

    def value(is_numpy, depth=0):
        kind = chance.random()
        if kind < 0.45:
            return array(is_numpy)
        if kind < 0.97 and depth < 2 and kind > 0.85:
            return chance.choice([list, tuple])(value(is_numpy, depth + 1) for _ in range(chance.choice([0, 1, 2, 3])))
        return chance.choice(numbers if kind < 0.7 else words if kind < 0.85 else others)

    def arguments(function, is_numpy):
        try:
            known = [p for p in inspect.signature(function).parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        except (TypeError, ValueError):
            known = []
        needed = [p for p in known if p.default is p.empty]
        count = len(needed) if chance.random() < 0.6 else chance.randrange(4)
        args = [array(is_numpy) if chance.random() < 0.75 else value(is_numpy) for _ in range(count)]
        options = [p for p in known if p.default is not p.empty and p.name not in ("decimals", "num_layers")]  # NumPy's own round() crashes
        return args, {p.name: value(is_numpy) for p in chance.sample(options, min(len(options), chance.randrange(3)))}

    def use(function, args, options, is_numpy):
        result = function(*args, **options)
        if inspect.isclass(function) and hasattr(result, "collect_params"):
            result.initialize()
            if chance.random() < 0.5:
                result.hybridize()
            result = result(array(is_numpy))
        for part in result if isinstance(result, (list, tuple)) else [result]:
            if hasattr(part, "asnumpy"):
                part.asnumpy()

    def hangs(*_):
        raise TimeoutError

    def fault_of(error):
        if isinstance(error, TimeoutError):
            return "no answer within 60 s"
        if isinstance(error, (RecursionError, SystemError)) or type(error).__name__ == "InternalError" or "std::" in str(error):
            return f"{type(error).__name__}: {error}"
        return None

    signal.signal(signal.SIGALRM, hangs)
    faults = []
    for name in names:
        module = mx
        for part in name.split("."):
            module = getattr(module, part)
        is_numpy = name.startswith("np")
        for known in sorted(set(dir(module)) - left_out - layers_in_a_loop):
            function = getattr(module, known)
            if known.startswith("_") or not callable(function):
                continue
            for _ in range(calls):
                args, options = arguments(function, is_numpy)
                call = f"mx.{name}.{known}(*{args!r:.600}, **{options!r:.600})"
                with open("last_call", "w", encoding="utf8") as file:
                    file.write(call)
                signal.alarm(60)
                try:
                    use(function, args, options, is_numpy)
                except Exception as error:  # any word is fine, but for a few
                    if fault := fault_of(error):
                        faults.append(f"{call}\n  {fault:.300}")
                finally:
                    signal.alarm(0)
    with open("faults", "w", encoding="utf8") as file:
        file.write("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(walk(int(sys.argv[1]), sys.argv[2:]))
