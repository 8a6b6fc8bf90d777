"""mx.sym.np: functions of mx.np over symbols of a graph, of which neither shape nor dtype is known yet.

In a trace both are, and the functions of mx.np themselves serve. Here an operator does what NumPy's function does, whatever comes in.
"""
import functools
import inspect
import types

from .. import _core
from .. import numpy as _np, numpy_extension as _npx
from . import _internal, symbol as _symbol

# Operators by functions, where the attributes are named as NumPy's arguments are; others are renamed.
_OPERATORS = {
    "sum": "_np_sum", "prod": "_np_prod", "max": "_np_max", "min": "_np_min", "amax": "_np_max", "amin": "_np_min", "all": "_np_all", "any": "_np_any",
    "mean": "_npi_mean", "std": "_npi_std", "var": "_npi_var", "argmax": "_npi_argmax", "argmin": "_npi_argmin", "cumsum": "_np_cumsum",
    "around": "_npi_around", "round": "_npi_around", "round_": "_npi_around", "squeeze": "_np_squeeze", "flip": "_npi_flip", "roll": "_np_roll",
    "tril": "_npi_tril", "full_like": "_npi_full_like", "moveaxis": "_np_moveaxis", "trace": "_np_trace", "matmul": "_npi_matmul", "dot": "_np_dot",
    "polyval": "_npi_polyval", "bitwise_not": "_npi_bitwise_not", "invert": "_npi_bitwise_not",
    "hstack": "_npi_hstack", "vstack": "_npi_vstack", "row_stack": "_npi_vstack", "dstack": "_npi_dstack",
    "column_stack": "_npi_column_stack", "atleast_1d": "_np_atleast_1d", "atleast_2d": "_np_atleast_2d", "atleast_3d": "_np_atleast_3d",
    "fabs": "_npi_abs", "rint": "_npi_rint", "nan_to_num": "_npi_nan_to_num", "diff": "_npi_diff", "rot90": "_npi_rot90",
    "kron": "_npi_kron", "cumprod": "_npi_cumprod",
}
_BINARY = {"true_divide": "true_divide", "divide": "true_divide", "arctan2": "arctan2", "hypot": "hypot", "copysign": "copysign",
           **{name: name for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "lcm")}}
_SYMMETRIC = {"hypot", "bitwise_and", "bitwise_or", "bitwise_xor", "lcm"}  # a number on either side is the same operator
_AXES = {"axis", "shift", "source", "destination"}  # which operators take as tuples
_OF_ONE_AXIS = ("argmax", "argmin", "cumsum", "cumprod", "diff")  # whose axis is a number
_WITH_INITIAL = {"sum", "prod", "max", "min", "amax", "amin"}


def _is_graph(x):
    return isinstance(x, _core.SymbolBase) and not _core.is_traced(x)


def _has_graph(values):
    return any(_is_graph(x) or (isinstance(x, (list, tuple)) and _has_graph(x)) for x in values)


def _tuple(x):
    return tuple(x) if isinstance(x, (list, tuple)) else (x,)


def _by_operator(name, given, signature):
    inputs, attrs = [], {}
    for key, value in given.items():
        default = signature.parameters[key].default
        if _has_graph([value]):
            inputs.extend(value if isinstance(value, (list, tuple)) else [value])
        elif isinstance(value, tuple) and signature.parameters[key].kind is inspect.Parameter.VAR_POSITIONAL:
            inputs.extend(value)
        elif value is not None and value is not default:
            attrs[key] = _tuple(value) if key in _AXES and name not in _OF_ONE_AXIS else value
    for key in ("out", "where", "initial", "order", "subok"):
        if key in attrs and not (key == "initial" and name in _WITH_INITIAL):
            raise NotImplementedError(f"sym.np.{name}: {key} is not supported")
    return getattr(_internal, _OPERATORS[name])(*inputs, **attrs)


def _binary(name):
    def function(x1, x2, out=None, **kwargs):
        operator = _BINARY[name]
        if _is_graph(x1) and _is_graph(x2):
            return getattr(_internal, f"_npi_{operator}")(x1, x2)
        if _is_graph(x1):
            return getattr(_internal, f"_npi_{operator}_scalar")(x1, scalar=float(x2))
        return getattr(_internal, f"_npi_{'' if name in _SYMMETRIC else 'r'}{operator}_scalar")(x2, scalar=float(x1))
    return function


# ---- functions whose arguments are not the operator's

def _split(operator, axis_of):
    def function(ary, indices_or_sections, axis=None):
        attrs = {"sections": indices_or_sections} if isinstance(indices_or_sections, int) else {"indices": (0, *indices_or_sections)}
        return list(getattr(_internal, operator)(ary, axis=axis_of if axis is None else axis, squeeze_axis=False, **attrs))
    return function


def _pad(x, pad_width, mode="constant", constant_values=0, **kwargs):
    if isinstance(pad_width, int) or not isinstance(pad_width[0], (list, tuple)):
        raise NotImplementedError("sym.np.pad: of a symbol the number of axes is not known; give a pair for each")
    widths = tuple(width for pair in pad_width for width in _tuple(pair))
    return _internal._npi_pad(x, pad_width=widths, mode=mode, **({"constant_value": constant_values} if mode == "constant" else {}))


def _flip(m, axis=None, out=None):
    if axis is None:  # all axes turned round are all elements turned round
        return _symbol._operator("reshape_like")(_internal._npi_flip(_flat(m), axis=(0,)), m)
    return _internal._npi_flip(m, axis=_tuple(axis))


def _tensordot(a, b, axes=2):
    if isinstance(axes, int):
        return _internal._npi_tensordot_int_axes(a, b, axes=axes)
    return _internal._npi_tensordot(a, b, a_axes_summed=_tuple(axes[0]), b_axes_summed=_tuple(axes[1]))


def _flat(x):
    return _internal._npi_reshape(x, newshape=(-1,))


def _percentile(a, q, axis=None, out=None, overwrite_input=None, interpolation="linear", keepdims=False):
    attrs = {"interpolation": interpolation, "keepdims": keepdims, **({} if axis is None else {"axis": _tuple(axis)})}
    return _internal._npi_percentile(a, q, **attrs) if _is_graph(q) else _internal._npi_percentile(a, q_scalar=float(q), **attrs)


def _quantile(a, q, axis=None, out=None, overwrite_input=None, interpolation="linear", keepdims=False):
    return _percentile(a, q * 100, axis, out, overwrite_input, interpolation, keepdims)


def _average(a, axis=None, weights=None, returned=False, out=None):
    attrs = {"returned": returned, "weighted": weights is not None, **({} if axis is None else {"axis": _tuple(axis)})}
    return _internal._npi_average(a, *([] if weights is None else [weights]), **attrs)


def _places(obj, axis):
    """How the operators behind delete and insert are told where: (inputs, attributes)."""
    attrs = {} if axis is None else {"axis": axis}
    if isinstance(obj, slice):
        bounds = {"start": obj.start, "stop": obj.stop, "step": obj.step}
        return [], {**attrs, **{key: value for key, value in bounds.items() if value is not None}}
    if isinstance(obj, int):
        return [], {**attrs, "int_ind": obj}
    if not _is_graph(obj):
        raise NotImplementedError("sym.np: places of a symbol's elements are a number, a slice or a symbol")
    return [obj], attrs


def _delete(arr, obj, axis=None):
    inputs, attrs = _places(obj, axis)
    return _internal._npi_delete(arr, *inputs, **attrs)


def _insert(arr, obj, values, axis=None):
    inputs, attrs = _places(obj, axis)
    operator = "_npi_insert_tensor" if inputs else "_npi_insert_slice" if isinstance(obj, slice) else "_npi_insert_scalar"
    if _is_graph(values):
        return getattr(_internal, operator)(arr, values, *inputs, **attrs)
    return getattr(_internal, operator)(arr, **({"obj": inputs[0]} if inputs else {}), val=float(values), **attrs)


def _histogram(a, bins=10, range=None, normed=None, weights=None, density=None):
    if any(option is not None for option in (normed, weights, density)):
        raise NotImplementedError("sym.np.histogram: normed, weights and density are not supported")
    if _is_graph(bins):
        return list(_internal._histogram(a, bins))
    if range is None:
        raise NotImplementedError("sym.np.histogram: of a symbol the least and the greatest element are not known; give range")
    return list(_internal._histogram(a, bin_cnt=bins, range=tuple(float(x) for x in range)))


def _bincount(x, weights=None, minlength=0):
    inputs = [x] if weights is None else [x, weights]
    return _internal._npi_bincount(*inputs, minlength=minlength, has_weights=weights is not None)


def _unique(ar, return_index=False, return_inverse=False, return_counts=False, axis=None):
    made = _internal._npi_unique(ar, return_index=return_index, return_inverse=return_inverse, return_counts=return_counts,
                                 **({} if axis is None else {"axis": axis}))
    return tuple(made) if return_index or return_inverse or return_counts else made


def _where(condition, x=None, y=None):
    if x is None or y is None:
        raise NotImplementedError("sym.np.where: of a symbol how many elements hold is not known; use sym.np.nonzero")
    if _is_graph(x) and _is_graph(y):
        return _internal._npi_where(condition, x, y)
    if _is_graph(x) or _is_graph(y):
        operator = _internal._npi_where_rscalar if _is_graph(x) else _internal._npi_where_lscalar
        return operator(condition, x if _is_graph(x) else y, scalar=float(y if _is_graph(x) else x))
    return _internal._npi_where_scalar2(condition, x=float(x), y=float(y))


def _ediff1d(ary, to_end=None, to_begin=None):
    inputs, attrs = [ary], {}
    for key, value in (("to_begin", to_begin), ("to_end", to_end)):
        if _is_graph(value):
            inputs.append(value)
            attrs[f"{key}_arr_given"] = True
        elif value is not None:
            attrs[f"{key}_scalar"] = float(value)
    return _internal._npi_ediff1d(*inputs, **attrs)


def _unravel_index(indices, shape, order="C"):
    if order != "C":
        raise NotImplementedError("unravel_index: only order='C' is supported")
    found = _internal._unravel_index(indices, shape=tuple(shape))
    parts = _symbol._operator("SliceChannel")(found, num_outputs=len(shape), axis=0, squeeze_axis=True)
    return tuple(parts) if len(shape) > 1 else (parts,)


def part_of(x, key):
    """The values of a symbol at numbers and slices along its first axes."""
    begin, end, step, shape = [], [], [], []
    for one in key if isinstance(key, tuple) else (key,):
        if isinstance(one, slice):
            bounds = one.start, one.stop, one.step
            shape.append(-2)  # stays
        elif hasattr(one, "__index__"):
            at = one.__index__()
            bounds = at, at + 1 if at != -1 else None, None
            shape.append(-3)  # goes
        else:
            raise TypeError(f"[] of a symbol of mx.np takes numbers and slices, not {type(one).__name__}")
        for places, bound in zip((begin, end, step), bounds):
            places.append(bound)
    made = _internal._npi_slice(x, begin=tuple(begin), end=tuple(end), step=tuple(step)) if begin else x
    return _internal._npx_reshape(made, newshape=(*shape, -4)) if -3 in shape else made


def _norm(x, ord=None, axis=None, keepdims=False):
    of_matrices = isinstance(axis, (list, tuple)) and len(axis) == 2
    attrs = {"keepdims": keepdims, **({} if axis is None else {"axis": _tuple(axis)})}
    if ord is None and not of_matrices and axis is not None:
        made = _internal._npi_norm(x, ord=2.0, flag=-1, **attrs)
    elif ord is None or ord == "fro":
        made = _internal._npi_norm(x, flag=-2 if axis is None else 1, **attrs)
    elif ord == "nuc" or (of_matrices and ord in (2, -2)):
        made = _internal._npi_norm(x, flag=2 if ord == "nuc" else 0, **({} if ord == "nuc" else {"ord": float(ord)}), **attrs)
    elif isinstance(axis, int):
        made = _internal._npi_norm(x, ord=float(ord), flag=-1, **attrs)
    else:
        raise NotImplementedError("sym.np.linalg.norm: of a symbol the number of axes is not known; give the axis of vectors, or order None")
    return _symbol._operator("Reshape")(made, shape=()) if axis is None and not keepdims else made


def _pinv(a, rcond=1e-15, hermitian=False):
    if _is_graph(rcond):
        return _internal._npi_pinv(a, rcond, hermitian=hermitian)
    return _internal._npi_pinv_scalar_rcond(a, rcond=float(rcond), hermitian=hermitian)


# ---- functions of functions

def _cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    axes = (axisa, axisb, axisc) if axis is None else (axis,) * 3
    return _internal._npi_cross(a, b, axisa=axes[0], axisb=axes[1], axisc=axes[2])


def _take_along_axis(arr, indices, axis):
    if axis is None:
        arr, indices, axis = _flat(arr), _flat(indices), 0
    return _internal._take_along_axis(arr, indices, axis=axis)


def _sinc(x):
    angle = _where(x == 0, 1.0, x * _np.pi)
    return _where(x == 0, 1.0, angle.sin() / angle)


def _reduced(name, a, axis, keepdims, **attrs):
    return getattr(_internal, name)(a, keepdims=keepdims, **attrs, **({} if axis is None else {"axis": _tuple(axis)}))


def _numbers(a, instead):
    return _where(a == a, a, instead)  # what is not a number equals nothing


def _nansum(a, axis=None, dtype=None, out=None, keepdims=False):
    return _reduced("_np_sum", _numbers(a, 0.0), axis, keepdims, **({} if dtype is None else {"dtype": dtype}))


def _nanmean(a, axis=None, dtype=None, out=None, keepdims=False):
    a = a if dtype is None else a.astype(dtype)
    return _binary("true_divide")(_nansum(a, axis, keepdims=keepdims), _reduced("_np_sum", a == a, axis, keepdims))


def _nanvar(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False):
    a = a if dtype is None else a.astype(dtype)
    distance = _internal._npi_subtract(a, _nanmean(a, axis, keepdims=True))
    return _binary("true_divide")(_nansum(distance * distance, axis, keepdims=keepdims), _reduced("_np_sum", a == a, axis, keepdims) - ddof)


def _nan_extreme(operator, instead):
    return lambda a, axis=None, out=None, keepdims=False: _reduced(operator, _numbers(a, instead), axis, keepdims)


def _ptp(a, axis=None, out=None, keepdims=False):
    return _reduced("_np_max", a, axis, keepdims) - _reduced("_np_min", a, axis, keepdims)


def _multi_dot(arrays):
    product = arrays[0]
    for each in arrays[1:]:
        product = _internal._np_dot(product, each)
    return product


def _matrix_power(a, n):
    if n == 0:
        raise NotImplementedError("sym.np.linalg.matrix_power: of a symbol the extents are not known; power 0 is sym.np.eye")
    base = _internal._npi_inv(a) if n < 0 else a
    product = base
    for _ in range(abs(n) - 1):
        product = _internal._npi_matmul(product, base)
    return product


def _singular_values(x):
    return _internal._npi_svd(x)[1]


def _cond(x, p=None):
    if p not in (None, 2, -2):
        raise NotImplementedError("sym.np.linalg.cond: only the orders None, 2 and -2 are supported")
    greatest, least = (_reduced(name, _singular_values(x), -1, False) for name in ("_np_max", "_np_min"))
    return least / greatest if p == -2 else greatest / least


def _qr(a, mode="reduced"):
    if mode != "reduced":
        raise NotImplementedError(f"qr: only mode='reduced' is supported, not {mode!r}")
    return tuple(_internal._npi_qr(a))


_LINALG = {
    "qr": _qr, "multi_dot": _multi_dot, "matrix_power": _matrix_power, "cond": _cond, "norm": _norm, "pinv": _pinv, "det": lambda a: _internal._npi_det(a), "slogdet": lambda a: tuple(_internal._npi_slogdet(a)),
    "solve": lambda a, b: _internal._npi_solve(a, b), "tensorinv": lambda a, ind=2: _internal._npi_tensorinv(a, ind=ind),
    "tensorsolve": lambda a, b, axes=None: _internal._npi_tensorsolve(a, b, **({} if axes is None else {"a_axes": _tuple(axes)})),
}


_FUNCTIONS = {
    "bincount": _bincount, "delete": _delete, "insert": _insert, "histogram": _histogram, "unique": _unique, "nonzero": lambda a: _internal._npx_nonzero(a),
    "flatnonzero": lambda a: _flat(_internal._npx_nonzero(_flat(a))), "median": lambda a, *args, **kwargs: _percentile(a, 50.0, *args, **kwargs),
    "where": _where, "ediff1d": _ediff1d, "unravel_index": _unravel_index,
    "split": _split("_npi_split", 0), "array_split": _split("_npi_split", 0), "vsplit": _split("_npi_split", 0), "hsplit": _split("_npi_split", 1),
    "dsplit": _split("_npi_split", 2), "pad": _pad, "tensordot": _tensordot, "percentile": _percentile, "quantile": _quantile, "average": _average,
    "triu": lambda m, k=0: m - _internal._npi_tril(m, k=k - 1), "flip": _flip, "flipud": lambda m: _flip(m, 0),
    "cross": _cross, "take_along_axis": _take_along_axis, "sinc": _sinc, "nansum": _nansum, "nanmean": _nanmean, "nanvar": _nanvar, "ptp": _ptp,
    "nanstd": lambda *args, **kwargs: _nanvar(*args, **kwargs).sqrt(), "nanmax": _nan_extreme("_np_max", -_np.inf),
    "nanmin": _nan_extreme("_np_min", _np.inf),
    "inner": lambda a, b: _tensordot(a, b, ([-1], [-1])), "vdot": lambda a, b: _tensordot(_flat(a), _flat(b), 1),
    "fliplr": lambda m: _flip(m, 1), **{name: _binary(name) for name in _BINARY},
}


# ---- of nothing

def _creating(whole):
    """A function of mx.np that makes arrays of numbers: here it makes symbols."""
    @functools.wraps(whole)
    def function(*args, **kwargs):
        before = _core.set_makes_symbols(True)
        try:
            return whole(*args, **kwargs)
        finally:
            _core.set_makes_symbols(before)
    return function


def _created(name):
    """The same where NumPy computes the values of mx.np's function, by the operator."""
    whole = getattr(_np, name)
    signature = inspect.signature(whole)

    @functools.wraps(whole)
    def function(*args, **kwargs):
        if _core.is_tracing():
            return whole(*args, **kwargs)
        given = signature.bind(*args, **kwargs).arguments
        if given.pop("axis", 0) != 0:
            raise NotImplementedError(f"sym.np.{name}: only axis=0 is supported")
        return getattr(_internal, f"_npi_{name}")(**{key: value for key, value in given.items() if value is not None and key != "ctx"}).as_np_ndarray()
    return function


_CREATORS = {"zeros", "ones", "full", "empty", "arange", "linspace", "eye", "identity"}
_BY_OPERATORS = {"logspace", "indices", "hanning", "hamming", "blackman"}


def _made(name, package=_np, functions=_FUNCTIONS):
    whole = getattr(package, name)
    if name == "linalg":
        return _Linalg("mxnet.symbol.numpy.linalg")
    if package is _np and name in _CREATORS:
        return _creating(whole)
    if package is _np and name in _BY_OPERATORS:
        return _created(name)
    if name not in _OPERATORS and name not in functions:
        return whole
    signature = inspect.signature(functions.get(name, whole))

    def function(*args, **kwargs):
        if not _has_graph((*args, *kwargs.values())):
            return whole(*args, **kwargs)
        if name in functions:
            return functions[name](*args, **kwargs)
        return _by_operator(name, signature.bind(*args, **kwargs).arguments, signature)
    function.__name__, function.__doc__, function.__signature__ = name, whole.__doc__, signature
    return function


class _Linalg(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        function = _made(name, _np.linalg, _LINALG)
        setattr(self, name, function)
        return function

    def __dir__(self):
        return dir(_np.linalg)


class _Random(types.ModuleType):
    """A namespace of random numbers, which are symbols here."""

    def __init__(self, name, package):
        super().__init__(name)
        self._package = package

    def __getattr__(self, name):
        whole = getattr(self._package, name)
        if name.startswith("__") or name == "seed":
            return whole
        function = _creating(whole)
        setattr(self, name, function)
        return function

    def __dir__(self):
        return dir(self._package)


_random = _Random("mxnet.symbol.numpy.random", _np.random)


def _rayleigh(scale=0.0, size=None, ctx=None, out=None):
    """The length of two normal numbers."""
    return _creating(_np.random.rayleigh)(scale, size, ctx, out)


_random.rayleigh = _rayleigh


class _Extension(types.ModuleType):
    """mx.npx, whose random numbers are symbols here."""

    random = _Random("mxnet.symbol.numpy_extension.random", _npx.random)

    def __getattr__(self, name):
        return getattr(_npx, name)

    def __dir__(self):
        return dir(_npx)


_extension = _Extension("mxnet.symbol.numpy_extension")
_functions = {"random": _random}  # by name; as attributes of the module they would hide Python's own from the code above


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    if name not in _functions:
        _functions[name] = getattr(_symbol, name) if name in ("load", "load_json") else _made(name)
    return _functions[name]


def __dir__():
    return dir(_np)
