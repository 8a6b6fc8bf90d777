"""Symbols and blocks: values, gradients against differences, speed."""
import time

import numpy as np

from .. import autograd, ndarray as nd, symbol as sym_module
from .comparison import array_of, as_numpy, assert_almost_equal, default_numeric_eps
from .environment import default_context

__all__ = ["simple_forward", "numeric_grad", "check_numeric_gradient", "check_symbolic_forward", "check_symbolic_backward", "check_consistency",
           "check_speed", "check_gluon_hybridize_consistency"]


def _by_name(symbol, values, dtype=None):
    pairs = values if isinstance(values, dict) else dict(zip(symbol.list_arguments(), values))
    unknown = set(pairs) - set(symbol.list_arguments())
    if unknown:
        raise ValueError(f"Symbol arguments and keys of the given location do not match. symbol args:{symbol.list_arguments()}, location.keys():{list(pairs)}")
    made = {name: array_of(value) for name, value in pairs.items()}
    return made if dtype is None else {name: a.astype(dtype) if "float" in a._dtype_name else a for name, a in made.items()}


def _states(symbol, aux_states):
    if aux_states is None:
        return None
    pairs = aux_states if isinstance(aux_states, dict) else dict(zip(symbol.list_auxiliary_states(), aux_states))
    return {name: array_of(value) for name, value in pairs.items()}


def simple_forward(sym, ctx=None, is_train=False, **inputs):
    """Outputs as NumPy arrays."""
    outputs = [o.asnumpy() for o in sym.bind(ctx, _by_name(sym, inputs), grad_req="null").forward(is_train)]
    return outputs[0] if len(outputs) == 1 else outputs


def numeric_grad(executor, location, aux_states=None, eps=1e-4, use_forward_train=True, dtype=np.float32):
    """Central differences of the sum of an executor's first output, by the names of its arguments."""
    kept = {name: array.copy() for name, array in (aux_states or {}).items()}

    def value():
        for name, array in kept.items():
            executor.aux_dict[name][:] = array
        executor.forward(is_train=use_forward_train)
        return float(executor.outputs[0].asnumpy().astype("float64").sum())
    grads = {}
    for name, start in location.items():
        start = as_numpy(start).astype("float64")
        grad = np.zeros(start.shape)
        if as_numpy(location[name]).dtype.kind == "f":
            for place in np.ndindex(*start.shape):
                sides = []
                for step in (eps / 2, -eps / 2):
                    moved = start.copy()
                    moved[place] += step
                    executor.arg_dict[name][:] = nd.array(moved, dtype=executor.arg_dict[name].dtype)
                    sides.append(value())
                grad[place] = (sides[0] - sides[1]) / eps
            executor.arg_dict[name][:] = nd.array(start, dtype=executor.arg_dict[name].dtype)
        grads[name] = grad.astype(dtype)
    return grads


def check_numeric_gradient(sym, location, aux_states=None, numeric_eps=None, rtol=None, atol=None, grad_nodes=None, use_forward_train=True, ctx=None,
                           grad_stype_dict=None, dtype=np.float32):
    """Compares the gradients of a symbol with central differences, of a random weighted sum of its first output."""
    eps = numeric_eps if numeric_eps is not None else default_numeric_eps()[np.dtype(dtype)]
    args, states = _by_name(sym, location, dtype), _states(sym, aux_states)
    wanted = [name for name in sym.list_arguments() if "float" in args[name]._dtype_name] if grad_nodes is None else list(grad_nodes)
    requests = grad_nodes if isinstance(grad_nodes, dict) else dict.fromkeys(wanted, "write")
    shapes = {name: value.shape for name, value in args.items()}
    _, out_shapes, _ = sym.infer_shape(**shapes)
    weights = nd.array(np.random.rand(*out_shapes[0]) + 0.1, dtype=dtype)
    weighted = sym_module.MakeLoss(sym_module.sum((sym if len(sym.list_outputs()) == 1 else sym[0]) * sym_module.Variable("__weights")))
    args["__weights"] = weights
    grads = {name: nd.zeros(args[name].shape, dtype=args[name].dtype) for name in wanted}
    executor = weighted.bind(ctx or default_context(), args, grads, {**dict.fromkeys(weighted.list_arguments(), "null"), **requests}, states)
    start = {name: state.copy() for name, state in (states or {}).items()}
    executor.forward(is_train=True)
    executor.backward()
    found = {name: executor.grad_dict[name].asnumpy() for name in wanted if requests[name] != "null"}
    differences = numeric_grad(executor, {name: args[name] for name in found}, start, eps, use_forward_train, np.float64)
    for name, grad in found.items():
        assert_almost_equal(grad, differences[name], 1e-2 if rtol is None else rtol, 1e-3 if atol is None else atol,
                            (f"gradient of {name}", "central differences"))


def check_symbolic_forward(sym, location, expected, rtol=None, atol=None, aux_states=None, ctx=None, equal_nan=False, dtype=np.float32):
    """Compares outputs of a symbol with given ones."""
    outputs = sym.bind(ctx, _by_name(sym, location), grad_req="null", aux_states=_states(sym, aux_states)).forward(False)
    expected = [expected[name] for name in sym.list_outputs()] if isinstance(expected, dict) else expected
    for name, out, want in zip(sym.list_outputs(), outputs, expected):
        assert_almost_equal(out, want, 1e-4 if rtol is None else rtol, atol, (name, "expected"), equal_nan)
    return outputs


def check_symbolic_backward(sym, location, out_grads, expected, rtol=None, atol=None, aux_states=None, grad_req="write", ctx=None, grad_stypes=None,
                            equal_nan=False, dtype=np.float32):
    """Compares gradients of a symbol with given ones; with grad_req "add", what was there before is added."""
    args = _by_name(sym, location)
    expected = expected if isinstance(expected, dict) else dict(zip(sym.list_arguments(), expected))
    before = {name: np.random.normal(size=value.shape) for name, value in args.items()}
    grads = {name: nd.array(before[name], dtype=args[name].dtype) for name in expected}
    requests = grad_req if isinstance(grad_req, dict) else dict(zip(sym.list_arguments(), grad_req)) if isinstance(grad_req, (list, tuple)) else \
        dict.fromkeys(sym.list_arguments(), grad_req)
    executor = sym.bind(ctx, args, grads, requests, _states(sym, aux_states))
    executor.forward(True)
    out_grads = [out_grads[name] for name in sym.list_outputs()] if isinstance(out_grads, dict) else out_grads
    executor.backward([array_of(g) for g in out_grads] if out_grads is not None else None)
    for name, want in expected.items():
        want = {"write": want, "add": before[name] + as_numpy(want) if requests[name] == "add" else None, "null": before[name]}[requests[name]]
        assert_almost_equal(grads[name], want, 1e-4 if rtol is None else rtol, atol, (f"gradient of {name}", "expected"), equal_nan)
    return [executor.grad_dict.get(name) for name in sym.list_arguments()]


def check_consistency(sym, ctx_list, scale=1.0, grad_req="write", arg_params=None, aux_params=None, rtol=None, atol=None, raise_on_err=True,
                      ground_truth=None, equal_nan=False, use_uniform=False, rand_type=np.float64):
    """Compares outputs and gradients of a symbol, or several, on several contexts and in several types; gives the most exact outputs."""
    symbols = sym if isinstance(sym, list) else [sym] * len(ctx_list)
    first = {k: v for k, v in ctx_list[0].items() if k not in ("ctx", "type_dict")}
    names = symbols[0].list_arguments()
    shapes, _, aux_shapes = symbols[0].infer_shape(**first)
    draw = (lambda s: np.random.uniform(-scale, scale, s)) if use_uniform else (lambda s: np.random.normal(size=s, scale=scale))
    values = {n: as_numpy(arg_params[n]) if arg_params and n in arg_params else draw(s).astype(rand_type) for n, s in zip(names, shapes)}
    states = {n: as_numpy(aux_params[n]) if aux_params and n in aux_params else np.zeros(s) for n, s in zip(symbols[0].list_auxiliary_states(), aux_shapes)}
    results = []
    for each, where in zip(symbols, ctx_list):
        types = {k: v for k, v in (where.get("type_dict") or {}).items() if k in names}
        executor = each.simple_bind(where["ctx"], grad_req, types, **{k: v for k, v in where.items() if k not in ("ctx", "type_dict")})
        for n in names:
            executor.arg_dict[n][:] = nd.array(values[n], dtype=executor.arg_dict[n].dtype)
        for n, s in states.items():
            executor.aux_dict[n][:] = nd.array(s, dtype=executor.aux_dict[n].dtype)
        executor.forward(is_train=grad_req != "null")
        if grad_req != "null":
            executor.backward([out.copy() for out in executor.outputs])
        results.append([*executor.outputs, *([g for g in executor.grad_dict.values() if g is not None] if grad_req != "null" else [])])
    exact = max(range(len(results)), key=lambda i: np.dtype(results[i][0].dtype).itemsize)
    truth = results[exact] if ground_truth is None else [ground_truth[k] for k in ground_truth]
    for result in results:
        for found, want in zip(result, truth):
            try:
                assert_almost_equal(found, want, rtol, atol, equal_nan=equal_nan)
            except AssertionError:
                if raise_on_err:
                    raise
    return results[exact]


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


def check_gluon_hybridize_consistency(net_builder, data_l, numpy_func=None, test_grad=True, rtol=1e-4, atol=1e-4):
    """Compares a network with its hybridized self and, where given, with a function of NumPy arrays."""
    saved, outputs, parameter_grads, input_grads = None, [], [], []
    for hybridized in (False, True):
        net, inputs = net_builder(), [x.copy() for x in data_l]
        net.initialize(None, default_context())
        if hybridized:
            net.hybridize()
        for x in inputs:
            x.attach_grad("write" if test_grad else "null")
        with autograd.record(train_mode=test_grad):
            out = net(*inputs)
        params = net._collect_params_with_prefix()
        if saved is None:
            saved = {name: p.data().copy() for name, p in params.items()}
        for name, p in params.items():
            p.set_data(saved[name])
        with autograd.record(train_mode=test_grad):
            out = net(*inputs)
        if test_grad:
            out.backward()
            parameter_grads.append({name: p.grad().asnumpy() for name, p in params.items() if p.grad_req != "null"})
            input_grads.append([x.grad.asnumpy() for x in inputs])
        outputs.append(out.asnumpy())
    np.testing.assert_allclose(outputs[1], outputs[0], rtol=rtol, atol=atol)
    if numpy_func is not None:
        np.testing.assert_allclose(outputs[0], numpy_func(*[x.asnumpy() for x in data_l]), rtol=rtol, atol=atol)
    if test_grad:
        for name, grad in parameter_grads[0].items():
            np.testing.assert_allclose(parameter_grads[1][name], grad, rtol=rtol, atol=atol)
        for a, b in zip(*input_grads):
            np.testing.assert_allclose(b, a, rtol=rtol, atol=atol)
