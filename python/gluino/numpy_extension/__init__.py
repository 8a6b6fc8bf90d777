"""mx.npx: neural-network operators for mx.np arrays, and the switch to NumPy mode."""
from .. import _core, _register
from ..context import cpu, cpu_pinned, current_context, current_device, gpu, num_gpus  # noqa: F401
from ..util import is_np_array, is_np_default_dtype, is_np_shape, np_array, np_shape, reset_np, set_np, use_np, use_np_array, use_np_shape  # noqa: F401
from ..ndarray import waitall  # noqa: F401
from .._control_flow import cond, foreach, while_loop  # noqa: F401
from . import image, random, utils  # noqa: F401
from .random import bernoulli, seed  # noqa: F401
from ..numpy.multiarray import _op


def _snake_case(name):
    """FullyConnected -> fully_connected, BatchNorm -> batch_norm, RNN -> rnn."""
    words = ""
    for i, letter in enumerate(name):
        follows = i > 0 and name[i - 1] != "_" and (name[i - 1].islower() or (i + 1 < len(name) and name[i + 1].islower()))
        words += ("_" if letter.isupper() and follows else "") + letter.lower()
    return words


# Names spelled in small letters first: softmax is not the old alias Softmax.
for _name, _operator in sorted(_core.operator_names(), key=lambda pair: pair[0] != pair[0].lower()):
    _place = _register.place_of(_name, {"_contrib_": "", "_npx__image_": "image", "_npx_": ""})
    if _place and _place[0] == "image":
        setattr(image, _place[1], _core.make_operator(_operator, _place[1], True, False))
    elif _place or not _name.startswith("_"):
        # ours: every public operator; MXNet lists the neural-network ones
        _short = _snake_case(_place[1] if _place else _name)
        globals().setdefault(_short, _core.make_operator(_operator, _short, True, False))
del _name, _operator, _place, _short




def nonzero(data):
    """The positions of elements other than 0, one row per position."""
    from ..numpy import stack
    from ..numpy import nonzero as positions
    return stack(positions(data), axis=-1)


def index_update(data, indices, val):
    """`data` with the elements at these positions, one column of `indices` each, replaced."""
    return _op("_scatter_set_nd")(data, val, indices, shape=data.shape)


def index_add(data, indices, val):
    """`data` with `val` added to the elements at these positions, one column of `indices` each."""
    return data + _op("scatter_nd")(val, indices, shape=data.shape)


def from_numpy(ndarray, zero_copy=True):
    """An mx.np array with the values and the dtype of a NumPy array."""
    return _core.array(ndarray, 0, True)


def from_dlpack(dlpack):
    """An mx.np array that shares memory with another framework's."""
    from ..ndarray import from_dlpack as from_capsule
    return from_capsule(dlpack).as_np_ndarray()


def to_dlpack_for_read(data):
    """A DLPack capsule of the array."""
    return _core.to_dlpack(data)


to_dlpack_for_write = to_dlpack_for_read


def activation(data, act_type="relu", **kwargs):
    """An activation by its name."""
    return _op("Activation")(data, act_type=act_type)


def reshape(a, newshape, reverse=False, order="C"):
    """Another shape: -1 follows from the others, -2 copies an extent, -3 skips one of 1, -4 copies the rest, -5 joins two, -6 splits one in two."""
    if order != "C":
        raise NotImplementedError("reshape: only order='C' is supported")
    return _op("_npx_reshape")(a, newshape=(newshape,) if isinstance(newshape, int) else tuple(newshape), reverse=reverse)


def gelu(data):
    """Gaussian error linear unit."""
    return _op("LeakyReLU")(data, act_type="gelu")


def constraint_check(data, msg="Constraint violated."):
    """True; raises ValueError with `msg` where an element is not."""
    return _op("_npx_constraint_check")(data, msg=msg)


def save(file, arr):
    """Writes arrays; see mx.nd.save."""
    from ..ndarray import save as nd_save
    nd_save(file, arr)


def load(file):
    """Reads arrays as mx.np arrays."""
    from ..ndarray.files import load_as_numpy
    return load_as_numpy(file)
