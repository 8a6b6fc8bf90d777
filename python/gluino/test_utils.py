"""Helpers for tests of operators and networks."""
import contextlib
import functools
import os

import numpy as np

from . import autograd, ndarray as nd
from .context import Context, current_context
from .io import MNISTIter, read_idx
from .symbol import Symbol

__all__ = ["default_context", "set_default_context", "default_dtype", "assert_almost_equal", "almost_equal", "same", "rand_ndarray", "rand_shape_2d",
           "rand_shape_3d", "rand_shape_nd", "random_arrays", "check_numeric_gradient", "check_symbolic_forward", "check_symbolic_backward",
           "check_consistency", "numeric_grad", "simple_forward", "list_gpus", "assert_exception", "rand_coord_2d", "assert_allclose",
           "rand_sparse_ndarray", "retry", "environment", "discard_stderr",
           "get_mnist", "get_mnist_iterator"]


def default_context():
    """The context of tests."""
    return current_context()


def set_default_context(ctx):
    """Changes it."""
    Context._local.value = ctx


def default_dtype():
    """float32."""
    return np.float32


def list_gpus():
    """None."""
    return []


def _numpy(x):
    return x.asnumpy() if hasattr(x, "asnumpy") else np.asarray(x)


def same(a, b):
    """Whether all elements are equal."""
    return np.array_equal(_numpy(a), _numpy(b))


def almost_equal(a, b, rtol=1e-5, atol=1e-20, equal_nan=False):
    """Whether all elements are close."""
    return np.allclose(_numpy(a), _numpy(b), rtol=rtol, atol=atol, equal_nan=equal_nan)


def assert_almost_equal(a, b, rtol=None, atol=None, names=("a", "b"), equal_nan=False, use_broadcast=True, mismatches=(10, 10)):
    """Raises AssertionError with the places where elements differ."""
    a, b = _numpy(a), _numpy(b)
    narrow = min((x.dtype for x in (a, b) if x.dtype.kind == "f"), key=lambda d: d.itemsize, default=np.dtype("float64"))
    rtol = {2: 1e-2, 4: 1e-4, 8: 1e-5}[narrow.itemsize] if rtol is None else rtol
    atol = {2: 1e-1, 4: 1e-3, 8: 1e-20}[narrow.itemsize] if atol is None else atol
    np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan, err_msg=f"{names[0]} and {names[1]} differ")


def assert_allclose(a, b, rtol=1e-07, atol=0, equal_nan=True):
    """Raises AssertionError unless all elements are close."""
    np.testing.assert_allclose(_numpy(a), _numpy(b), rtol=rtol, atol=atol, equal_nan=equal_nan)


def retry(n):
    """A decorator: an AssertionError only counts when it comes n times."""
    def decorate(test):
        @functools.wraps(test)
        def again(*args, **kwargs):
            for _ in range(n - 1):
                with contextlib.suppress(AssertionError):
                    return test(*args, **kwargs)
            return test(*args, **kwargs)
        return again
    return decorate


@contextlib.contextmanager
def environment(*args):
    """A `with` scope with other environment variables: (name, value) or a dictionary; None takes one away."""
    wanted = args[0] if len(args) == 1 else {args[0]: args[1]}
    before = {name: os.environ.get(name) for name in wanted}

    def put(values):
        for name, value in values.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = str(value)
    put(wanted)
    try:
        yield
    finally:
        put(before)


@contextlib.contextmanager
def discard_stderr():
    """A `with` scope that shows no errors of C++."""
    kept = os.dup(2)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _mnist_file(path, name):
    for found in (os.path.join(path, name), os.path.join(path, name + ".gz")):
        if os.path.exists(found):
            return found
    raise FileNotFoundError(f"{path} has no {name}, gzipped or not; MNIST is not downloaded")


_MNIST = {"train": "train", "test": "t10k"}


def get_mnist(path="data"):
    """MNIST's files in a folder as arrays: train_data, train_label, test_data and test_label."""
    arrays = {}
    for part, name in _MNIST.items():
        images = read_idx(_mnist_file(path, f"{name}-images-idx3-ubyte"))
        arrays[f"{part}_data"] = images[:, None].astype(np.float32) / 255
        arrays[f"{part}_label"] = read_idx(_mnist_file(path, f"{name}-labels-idx1-ubyte"))
    return arrays


def get_mnist_iterator(batch_size, input_shape, num_parts=1, part_index=0, path="data"):
    """(training, validation) iterators over MNIST's files in a folder; flat images for an input shape of one axis."""
    def made(name, shuffle):
        images, labels = (_mnist_file(path, f"{name}-{kind}-ubyte") for kind in ("images-idx3", "labels-idx1"))
        return MNISTIter(image=images, label=labels, batch_size=batch_size, shuffle=shuffle, flat=len(input_shape) == 1, num_parts=num_parts,
                         part_index=part_index, input_shape=input_shape)
    return made("train", True), made("t10k", False)


def assert_exception(f, exception_type, *args, **kwargs):
    """Raises unless f does."""
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(f"{exception_type} was not raised")


def rand_shape_nd(num_dim, dim=10):
    """A random shape."""
    return tuple(np.random.randint(1, dim + 1, size=num_dim).tolist())


def rand_shape_2d(dim0=10, dim1=10):
    """A random shape of two axes."""
    return tuple(int(np.random.randint(1, d + 1)) for d in (dim0, dim1))


def rand_shape_3d(dim0=10, dim1=10, dim2=10):
    """A random shape of three axes."""
    return tuple(int(np.random.randint(1, d + 1)) for d in (dim0, dim1, dim2))


def rand_coord_2d(x_low, x_high, y_low, y_high):
    """A random place."""
    return np.random.randint(x_low, x_high), np.random.randint(y_low, y_high)


def rand_sparse_ndarray(shape, stype, density=None, dtype=None, **kwargs):
    """A random sparse array, and the arrays that it stores."""
    values = np.random.uniform(-1, 1, shape)
    stored = np.random.rand(*(shape if stype == "csr" else shape[:1])) < (np.random.rand() if density is None else density)
    values *= stored if stype == "csr" else stored.reshape(-1, *[1] * (len(shape) - 1))
    array = nd.array(values, dtype=dtype).tostype(stype)
    return array, (array.data, array.indptr, array.indices) if stype == "csr" else (array.data, array.indices)


def rand_ndarray(shape, stype="default", density=None, dtype=None, ctx=None, **kwargs):
    """A random array."""
    if stype != "default":
        return rand_sparse_ndarray(shape, stype, density, dtype)[0]
    return nd.array(np.random.uniform(-1, 1, shape), ctx=ctx, dtype=dtype)


def random_arrays(*shapes):
    """Random NumPy arrays."""
    made = [np.array(np.random.randn(), dtype=np.float32) if not s else np.random.randn(*s).astype(np.float32) for s in shapes]
    return made[0] if len(made) == 1 else made


def _by_name(symbol, values):
    values = values if isinstance(values, dict) else dict(zip(symbol.list_arguments(), values))
    return {name: value if isinstance(value, nd.NDArray) else nd.array(value, dtype=np.asarray(value).dtype) for name, value in values.items()}


def _states(symbol, aux_states):
    if aux_states is None:
        return None
    pairs = aux_states if isinstance(aux_states, dict) else dict(zip(symbol.list_auxiliary_states(), aux_states))
    return {name: value if isinstance(value, nd.NDArray) else nd.array(value) for name, value in pairs.items()}


def simple_forward(sym, ctx=None, is_train=False, **inputs):
    """Outputs as NumPy arrays."""
    outputs = [o.asnumpy() for o in sym.bind(ctx, _by_name(sym, inputs), grad_req="null").forward(is_train)]
    return outputs[0] if len(outputs) == 1 else outputs


def numeric_grad(function, inputs, eps=1e-4):
    """Central differences of a function of NumPy arrays that gives a number."""
    grads = []
    for x in inputs:
        grad = np.zeros(x.shape)
        for place in np.ndindex(*x.shape):
            kept = x[place]
            x[place] = kept + eps
            up = function(*inputs)
            x[place] = kept - eps
            grad[place] = (up - function(*inputs)) / (2 * eps)
            x[place] = kept
        grads.append(grad)
    return grads


def check_numeric_gradient(sym, location, aux_states=None, numeric_eps=1e-3, rtol=1e-2, atol=None, grad_nodes=None, use_forward_train=True, ctx=None,
                           grad_stype_dict=None, dtype=np.float64):
    """Compares gradients of a symbol, or of a function of arrays, with central differences, in float64."""
    if isinstance(sym, Symbol):
        names = sym.list_arguments()
        start = {name: value.astype("float64") for name, value in _by_name(sym, location).items()}
        states = _states(sym, aux_states)

        def run(*arrays):
            return sym.bind(ctx, dict(zip(names, arrays)), grad_req="null", aux_states=states and {k: v.copy() for k, v in states.items()}).forward(use_forward_train)
        values = [start[name] for name in names]
    else:
        names, run = list(range(len(location))), sym
        values = [nd.array(_numpy(value), dtype="float64") for value in location]
    first = run(*values)
    first = first if isinstance(first, list) else [first]
    heads = [np.random.normal(size=o.shape) for o in first]

    def total(*arrays):
        outputs = run(*[nd.array(a, dtype="float64") for a in arrays])
        outputs = outputs if isinstance(outputs, list) else [outputs]
        return sum(float((o.asnumpy() * h).sum()) for o, h in zip(outputs, heads))
    expected = numeric_grad(total, [v.asnumpy() for v in values], numeric_eps)
    if isinstance(sym, Symbol):
        grads = {name: nd.zeros(v.shape, dtype="float64") for name, v in zip(names, values)}
        executor = sym.bind(ctx, dict(zip(names, values)), grads, "write", states)
        executor.forward(use_forward_train)
        executor.backward([nd.array(h, dtype="float64") for h in heads])
        got = [grads[name] for name in names]
    else:
        for value in values:
            value.attach_grad()
        with autograd.record():
            outputs = run(*values)
        outputs = outputs if isinstance(outputs, list) else [outputs]
        autograd.backward(outputs, [nd.array(h, dtype="float64") for h in heads])
        got = [value.grad for value in values]
    for name, g, want in zip(names, got, expected):
        if grad_nodes is None or name in grad_nodes:
            assert_almost_equal(g, want, rtol, 1e-4 if atol is None else atol, (f"gradient of {name}", "central differences"))


def check_symbolic_forward(sym, location, expected, rtol=1e-4, atol=None, aux_states=None, ctx=None, equal_nan=False, dtype=np.float32):
    """Compares outputs of a symbol with given ones."""
    outputs = sym.bind(ctx, _by_name(sym, location), grad_req="null", aux_states=_states(sym, aux_states)).forward(False)
    expected = [expected[name] for name in sym.list_outputs()] if isinstance(expected, dict) else expected
    for name, out, want in zip(sym.list_outputs(), outputs, expected):
        assert_almost_equal(out, want, rtol, atol, (name, "expected"), equal_nan)
    return outputs


def check_symbolic_backward(sym, location, out_grads, expected, rtol=1e-5, atol=None, aux_states=None, grad_req="write", ctx=None, grad_stypes=None,
                            equal_nan=False, dtype=np.float32):
    """Compares gradients of a symbol with given ones."""
    args = _by_name(sym, location)
    grads = {name: nd.zeros(value.shape, dtype=value.dtype) for name, value in args.items()}
    executor = sym.bind(ctx, args, grads, grad_req, _states(sym, aux_states))
    executor.forward(True)
    executor.backward([g if isinstance(g, nd.NDArray) else nd.array(g) for g in out_grads])
    expected = expected if isinstance(expected, dict) else dict(zip(sym.list_arguments(), expected))
    for name, want in expected.items():
        assert_almost_equal(grads[name], want, rtol, atol, (f"gradient of {name}", "expected"), equal_nan)
    return grads


def check_consistency(sym, ctx_list, scale=1.0, **kwargs):
    """Compares outputs of a symbol on several contexts."""
    shapes = {k: v for k, v in ctx_list[0].items() if k not in ("ctx", "type_dict")}
    names, (arg_shapes, _, _) = sym.list_arguments(), sym.infer_shape(**shapes)
    values = [np.random.normal(scale=scale, size=s).astype("float32") for s in arg_shapes]
    outputs = [sym.bind(c["ctx"], {n: nd.array(v, ctx=c["ctx"]) for n, v in zip(names, values)}, grad_req="null").forward()[0].asnumpy() for c in ctx_list]
    for out in outputs[1:]:
        assert_almost_equal(out, outputs[0])
    return outputs
