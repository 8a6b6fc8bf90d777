"""foreach, while_loop and cond of mx.nd.contrib and mx.sym.contrib: loops over values, or nodes of a graph."""
from . import _core
from ._tracing.snapshot import contents

__all__ = ["foreach", "while_loop", "cond", "isinf", "isnan", "isfinite", "rand_zipfian"]


def _is_value(x):
    return isinstance(x, (_core.Array, _core.SymbolBase))


def _flat(x):
    """(list of values, how to nest a list of as many the same way)."""
    if x is None:
        return [], lambda values: None
    if _is_value(x):
        return [x], lambda values: values[0]
    if not isinstance(x, (list, tuple)):
        raise TypeError(f"loops and branches take and give arrays, or lists of them, not {x!r:.60}")
    parts = [_flat(item) for item in x]
    sizes = [len(values) for values, _ in parts]

    def nest(values):
        result, at = [], 0
        for (_, inner), size in zip(parts, sizes):
            result.append(inner(values[at:at + size]))
            at += size
        return result
    return [value for values, _ in parts for value in values], nest


def _is_numpy(values):
    from .numpy import ndarray, _Symbol
    return any(isinstance(value, (ndarray, _Symbol)) for value in values)


def _without_effects(function, what):
    """A body is traced once for all steps, and both branches are: what it does to objects of Python's would be done once, or although it must not."""
    def run(*args):
        before = contents(function) if _core.is_tracing() else None
        result = function(*args)
        if before is not None and contents(function) != before:
            _core.refuse_trace(f"the body of {what} changes what it finds outside")
        return result
    return run


def foreach(body, data, init_states, name="foreach"):
    """body(slice, states) -> (output, states) for every row of `data`; gives the stacked outputs and the last states."""
    flat_data, nest_data = _flat(data)
    flat_states, nest_states = _flat(init_states)
    nest_output = [None]
    body = _without_effects(body, "foreach")

    def run(slices, states):
        output, new_states = body(nest_data(slices), nest_states(states))
        outputs, nest_output[0] = _flat(output)
        return outputs, _flat(new_states)[0]
    outputs, states = _core.foreach(run, flat_data, flat_states, _is_numpy(flat_data))
    return nest_output[0](outputs), nest_states(states)


def while_loop(cond, func, loop_vars, max_iterations=None, name="while_loop"):
    """func(*loop_vars) -> (outputs, loop_vars) while cond(*loop_vars), at most max_iterations times.

    As MXNet's, outputs have max_iterations rows, of which those after the last step are 0; without a step there is none.
    """
    if max_iterations is None:
        raise ValueError("max_iterations should be specified")
    flat_vars, nest_vars = _flat(loop_vars)
    nest_output = [lambda values: values]
    cond, func = _without_effects(cond, "while_loop"), _without_effects(func, "while_loop")

    def spread(values):
        nested = nest_vars(values)
        return nested if isinstance(nested, list) else [nested]

    def run(values):
        output, new_vars = func(*spread(values))
        outputs, nest_output[0] = _flat(output)
        return outputs, _flat(new_vars)[0]
    outputs, values = _core.while_loop(lambda values: cond(*spread(values)), run, flat_vars, int(max_iterations), _is_numpy(flat_vars))
    return nest_output[0]([_with_rows(output, int(max_iterations)) for output in outputs]), nest_vars(values)


def _with_rows(output, count):
    if not isinstance(output, _core.Array) and not _core.is_traced(output):
        return output  # a graph's has them all
    if output.shape[0] in (0, count):
        return output
    longer = output._call("_npi_pad", pad_width=(0, count) + (0, 0) * (output.ndim - 1), mode="constant")
    return longer._call("slice_axis", axis=0, begin=0, end=count)  # of whatever there is: a file's loop gives all rows by itself


def cond(pred, then_func, else_func, name="cond"):
    """then_func() if the value `pred` is not 0, else else_func()."""
    if not _is_value(pred):
        raise TypeError(f"cond: pred is an array of one element, but {type(pred).__name__} was given")
    nest_output = [None]

    def branch(function):
        function = _without_effects(function, "cond")

        def run():
            values, nest_output[0] = _flat(function())
            return values
        return run
    outputs = _core.cond(pred, branch(then_func), branch(else_func), _is_numpy([pred]))
    return nest_output[0](outputs)


def isinf(data):
    """1 where a number is infinite."""
    return data.abs() == float("inf")


def isnan(data):
    """1 where a number is not one."""
    return data != data


def isfinite(data):
    """1 where a number is neither infinite nor NaN."""
    return (data == data) * (data.abs() != float("inf"))


def rand_zipfian(true_classes, num_sampled, range_max, ctx=None):
    """Draws classes by Zipf's law; with the expected counts of the true and the sampled ones."""
    import math
    log_range = math.log(range_max + 1)
    from . import ndarray, symbol
    package = symbol if isinstance(true_classes, symbol.Symbol) else ndarray
    rand = package.random.uniform(0, log_range, shape=(num_sampled,), dtype="float64", ctx=ctx)
    sampled = (rand.exp() - 1).astype("int64") % range_max

    def expected(classes):
        classes = classes.astype("float64")
        return ((classes + 2.0) / (classes + 1.0)).log() / log_range * num_sampled
    return sampled, expected(true_classes), expected(sampled)
