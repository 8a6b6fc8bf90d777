"""Symbols and blocks: values, gradients against differences, speed."""
import contextlib
import time

import numpy as np

from .. import autograd, ndarray as nd, symbol as sym_module
from ..numpy import _Symbol as _NumpySymbol
from ..util import use_np
from .comparison import as_numpy, assert_almost_equal, default_numeric_eps, get_tolerance, get_tols
from .environment import default_context

__all__ = ["simple_forward", "numeric_grad", "check_numeric_gradient", "check_symbolic_forward", "check_symbolic_backward", "check_consistency",
           "check_speed", "check_gluon_hybridize_consistency"]


def _arrays(names, values, what, ctx, dtype):
    """By name: arrays of NumPy become NDArrays of this dtype, or of their own for "asnumpy"; NDArrays stay."""
    if isinstance(values, dict):
        if set(values) != set(names):
            raise ValueError(f"Symbol {what} and keys of the given values do not match. symbol: {set(names)}, given: {set(values)}")
        pairs = values
    else:
        pairs = dict(zip(names, values))
    return {name: nd.array(value, ctx=ctx, dtype=value.dtype if dtype == "asnumpy" else dtype) if isinstance(value, np.ndarray) else value
            for name, value in pairs.items()}


def _location(symbol, location, ctx, dtype):
    return _arrays(symbol.list_arguments(), location, "arguments", ctx, dtype)


def _states(symbol, aux_states, ctx, dtype):
    if aux_states is None:
        return None
    made = _arrays(symbol.list_auxiliary_states(), aux_states, "aux_states", ctx, dtype)
    return {name: nd.array(value, ctx=ctx, dtype=value.dtype if dtype == "asnumpy" else dtype) for name, value in made.items()}


def simple_forward(sym, ctx=None, is_train=False, **inputs):
    """Outputs as NumPy arrays, of inputs in float32."""
    arguments = {name: nd.array(value) for name, value in inputs.items()}
    outputs = [o.asnumpy() for o in sym.bind(ctx or default_context(), arguments, grad_req="null").forward(is_train)]
    return outputs[0] if len(outputs) == 1 else outputs


def numeric_grad(executor, location, aux_states=None, eps=1e-4, use_forward_train=True, dtype=np.float32):
    """Central differences of the sum of an executor's first output, by the names of its arguments."""
    kept = {name: as_numpy(array).copy() for name, array in (aux_states or {}).items()}

    def put(target, value):
        target[:] = nd.array(value, dtype=target.dtype).tostype(target.stype)

    def value():
        for name, array in kept.items():
            put(executor.aux_dict[name], array)
        executor.forward(is_train=use_forward_train)
        return float(executor.outputs[0].asnumpy().astype("float64").sum())
    grads = {}
    for name, start in location.items():
        start = as_numpy(start)
        grad = np.zeros(start.shape, dtype=dtype)
        if start.dtype.kind == "f":
            for place in np.ndindex(*start.shape):
                sides = []
                for step in (eps / 2, -eps / 2):
                    moved = start.astype("float64")
                    moved[place] += step
                    put(executor.arg_dict[name], moved)
                    sides.append(value())
                grad[place] = (sides[0] - sides[1]) / eps
            put(executor.arg_dict[name], start)
        grads[name] = grad
    return grads


def check_numeric_gradient(sym, location, aux_states=None, numeric_eps=None, rtol=None, atol=None, grad_nodes=None, use_forward_train=True, ctx=None,
                           grad_stype_dict=None, dtype=np.float32):
    """Compares the gradients of a symbol with central differences, of a random weighted sum of its first output."""
    ctx = ctx or default_context()
    args, states = _location(sym, location, ctx, dtype), _states(sym, aux_states, ctx, dtype)
    start, kept = {name: as_numpy(value) for name, value in args.items()}, {name: state.asnumpy() for name, state in (states or {}).items()}
    grad_nodes = sym.list_arguments() if grad_nodes is None else grad_nodes
    requests = dict(grad_nodes) if isinstance(grad_nodes, dict) else dict.fromkeys(grad_nodes, "write")
    shape = sym.infer_shape(**{name: value.shape for name, value in args.items()})[1][0]
    weights, output = sym_module.Variable("__random_proj"), sym if len(sym.list_outputs()) == 1 else sym[0]
    is_np = isinstance(sym, _NumpySymbol)
    weighted = output * (weights.as_np_ndarray() if is_np else weights)
    weighted = sym_module.make_loss(weighted.as_nd_ndarray() if is_np else weighted)
    args["__random_proj"] = nd.array(np.random.rand(*shape) + 0.1, ctx=ctx, dtype=dtype)
    before = {name: np.random.normal(0, 0.01, size=args[name].shape) for name in requests}
    kinds = {name: (grad_stype_dict or {}).get(name) or "default" for name in requests}
    grads = {name: nd.array(values, ctx=ctx, dtype=dtype) if kinds[name] == "default" else nd.zeros(values.shape, ctx, dtype, kinds[name])
             for name, values in before.items()}
    executor = weighted.bind(ctx, args, grads, requests, states)
    executor.forward(is_train=True)
    eps = get_tolerance(executor.outputs[0], numeric_eps, default_numeric_eps())
    executor.backward()
    found = {name: grads[name].asnumpy() for name in requests}
    differences = numeric_grad(executor, {name: start[name] for name, request in requests.items() if request != "null"}, kept, eps, use_forward_train,
                               dtype)
    for name, request in requests.items():
        wanted = before[name] if request == "null" else differences[name]
        assert_almost_equal(wanted, (found[name] - before[name]).astype(dtype) if request == "add" else found[name], rtol, atol,
                            (f"NUMERICAL_{name}", f"BACKWARD_{name}"))


def check_symbolic_forward(sym, location, expected, rtol=None, atol=None, aux_states=None, ctx=None, equal_nan=False, dtype=np.float32):
    """Compares outputs of a symbol with given ones."""
    ctx = ctx or default_context()
    executor = sym.bind(ctx, _location(sym, location, ctx, dtype), grad_req="null", aux_states=_states(sym, aux_states, ctx, dtype))
    executor.forward(is_train=False)
    expected = [expected[name] for name in sym.list_outputs()] if isinstance(expected, dict) else expected
    for name, out, want in zip(sym.list_outputs(), executor.outputs, expected):
        assert_almost_equal(want, out, rtol, atol, (f"EXPECTED_{name}", f"FORWARD_{name}"), equal_nan)
    return executor.outputs


def check_symbolic_backward(sym, location, out_grads, expected, rtol=None, atol=None, aux_states=None, grad_req="write", ctx=None, grad_stypes=None,
                            equal_nan=False, dtype=np.float32):
    """Compares gradients of a symbol with given ones and gives them by name; with grad_req "add" or "null", what was there before counts."""
    ctx = ctx or default_context()
    args, names = _location(sym, location, ctx, dtype), sym.list_arguments()
    expected = expected if isinstance(expected, dict) else dict(zip(names, expected))
    before = {name: np.random.normal(size=np.shape(expected[name])) for name in sorted(expected)}
    grads = {}
    for name, values in before.items():
        stype = (grad_stypes or {}).get(name) or "default"
        own = expected[name].dtype if dtype == "asnumpy" else dtype
        grads[name] = nd.array(values, ctx=ctx, dtype=own) if stype == "default" else nd.zeros(values.shape, ctx, own, stype)
    requests = grad_req if isinstance(grad_req, dict) else dict.fromkeys(names, grad_req) if isinstance(grad_req, str) else dict(zip(names, grad_req))
    executor = sym.bind(ctx, args, grads, requests, _states(sym, aux_states, ctx, dtype))
    executor.forward(is_train=True)

    def head(value):
        return nd.array(value, ctx=ctx, dtype=value.dtype if dtype == "asnumpy" else dtype) if isinstance(value, np.ndarray) else value
    if isinstance(out_grads, dict):
        out_grads = {name: head(value) for name, value in out_grads.items()}
    elif out_grads is not None:
        out_grads = [head(value) for value in out_grads]
    executor.backward(out_grads)
    for name, wanted in expected.items():
        request, found = requests[name], as_numpy(grads[name])
        added = (found - before[name]).astype(found.dtype)
        assert_almost_equal(before[name] if request == "null" else wanted, added if request == "add" else found, rtol, atol,
                            (f"EXPECTED_{name}", f"BACKWARD_{name}"), equal_nan)
    return grads


def check_consistency(sym, ctx_list, scale=1.0, grad_req="write", arg_params=None, aux_params=None, rtol=None, atol=None, raise_on_err=True,
                      ground_truth=None, equal_nan=False, use_uniform=False, rand_type=np.float64):
    """Compares outputs and gradients of a symbol, or several, on several contexts and in several types, with the most exact of them, which it gives
    by name: predicting, then training with the first one's outputs as head gradients."""
    symbols = [sym] * len(ctx_list) if isinstance(sym, sym_module.Symbol) else sym
    names, outputs = symbols[0].list_arguments(), symbols[0].list_outputs()
    if len(ctx_list) < 2 or len(symbols) != len(ctx_list) or any(s.list_arguments() != names or s.list_outputs() != outputs for s in symbols):
        raise AssertionError("two or more contexts are compared, with symbols of the same arguments and outputs")
    executors = [s.simple_bind(grad_req=grad_req, **where) for s, where in zip(symbols, ctx_list)]
    arguments, states = dict(arg_params or {}), dict(aux_params or {})
    for name, array in sorted(executors[0].arg_dict.items()):
        if name not in arguments:
            drawn = np.random.uniform(-0.92 * scale, 0.92 * scale, array.shape) if use_uniform else np.random.normal(size=array.shape, scale=scale)
            arguments[name] = drawn.astype(rand_type)
    for executor in executors:
        for arrays, given in ((executor.arg_dict, arguments), (executor.aux_dict, states)):
            for name, array in arrays.items():
                array[:] = given.get(name, 0)
        for grad in executor.grad_arrays if grad_req == "add" else ():
            grad[:] = 0

    def compare(results, exact, what):
        truth = results[exact] if ground_truth is None else ground_truth
        for i, found in enumerate(results):
            for name, array in found.items() if i != exact else ():
                if truth.get(name) is None or array is None:
                    continue
                # A gradient in float32 of a network in float16 is as exact as that.
                narrow = [a.astype(min((np.dtype(a.dtype), np.dtype(r[outputs[0]].dtype)), key=lambda t: t.itemsize))
                          for a, r in ((array, found), (truth[name], results[exact]))]
                tolerances = get_tols(*narrow, rtol, atol)
                try:
                    assert_almost_equal(array, truth[name], *tolerances, equal_nan=equal_nan)
                except AssertionError as error:
                    print(f"{what} Err: ctx {i} vs ctx {exact} at {name}: {error}")
                    if raise_on_err:
                        raise
        return truth
    for executor in executors:
        executor.forward(is_train=False)
    predicted = [executor.output_dict for executor in executors]
    exact = max(range(len(executors)), key=lambda i: np.dtype(predicted[i][outputs[0]].dtype).itemsize)
    truth = compare(predicted, exact, "Predict")
    if grad_req == "null":
        return truth
    for executor in executors:
        executor.forward(is_train=True)
    heads = [min((e.outputs[k] for e in executors), key=lambda a: np.dtype(a.dtype).itemsize).dtype for k in range(len(outputs))]
    heads = [out.astype(dtype).asnumpy() for out, dtype in zip(executors[0].outputs, heads)]
    for executor in executors:
        executor.backward([nd.array(value, dtype=out.dtype).tostype(out.stype) for value, out in zip(heads, executor.outputs)])
    return compare([{**executor.output_dict, **executor.grad_dict} for executor in executors], exact, "Train")


def check_speed(sym, location=None, ctx=None, N=20, grad_req=None, typ="whole", **kwargs):
    """Seconds of a run of a symbol: forward and backward ("whole"), or "forward" alone."""
    if typ not in ("whole", "forward"):
        raise ValueError("typ can only be \"whole\" or \"forward\".")
    grad_req = grad_req or ("write" if typ == "whole" else "null")
    if location is None:
        executor = sym.simple_bind(ctx or default_context(), grad_req, **kwargs)
        location = {name: np.random.normal(size=array.shape) for name, array in executor.arg_dict.items()}
    else:
        executor = sym.simple_bind(ctx or default_context(), grad_req, **{name: value.shape for name, value in location.items()})
    for name, value in location.items():
        executor.arg_dict[name][:] = nd.array(as_numpy(value), dtype=executor.arg_dict[name].dtype)

    def step():
        executor.forward(is_train=typ == "whole")
        if typ == "whole":
            executor.backward(executor.outputs)
    step()
    start = time.time()
    for _ in range(N):
        step()
    return (time.time() - start) / N


@use_np
def check_gluon_hybridize_consistency(net_builder, data_l, numpy_func=None, test_grad=True, rtol=1e-4, atol=1e-4):
    """Compares the network that net_builder(prefix=) makes with its hybridized self and, where given, with a function of NumPy arrays."""
    parameters, outputs, grads = None, [], []
    for hybridized in (False, True):
        for recorded in (False, True) if test_grad else (False,):
            net, inputs = net_builder(prefix="net_"), [x.copy() for x in data_l]
            net.initialize()
            if hybridized:
                net.hybridize()
            if parameters is None:
                net(*inputs)  # the shapes of all parameters are known then
                parameters = {name: p.data().copy() for name, p in net.collect_params().items()}
            for name, p in net.collect_params().items():
                p.set_data(parameters[name])
            for x in inputs if recorded else ():
                x.attach_grad()
            with autograd.record() if recorded else contextlib.nullcontext():
                out = net(*inputs)
            outputs.append(out.asnumpy())
            if recorded:
                out.backward(out)
                grads.append([x.grad.asnumpy() for x in inputs])
    for found in outputs[1:]:
        assert_almost_equal(found, outputs[0], rtol=rtol, atol=atol)
    for found in grads[1:]:
        for a, b in zip(found, grads[0]):
            assert_almost_equal(a, b, rtol=rtol, atol=atol)
    if numpy_func is not None:
        assert_almost_equal(outputs[0], numpy_func(*[x.asnumpy() for x in data_l]), rtol=rtol, atol=atol)
