"""Devices: cpu(0), cpu(1), ... and an explanation in place of gpu."""
import threading

from . import _core
from .base import CurrentValue, MXNetError

__all__ = ["Context", "Device", "cpu", "gpu", "cpu_pinned", "num_gpus", "current_context", "current_device", "gpu_memory_info"]


class _DefaultContext(type):
    default_ctx = property(lambda cls: current_context())


class Context(metaclass=_DefaultContext):
    """Where arrays live. Used with `with`, it is where new arrays are made."""

    devtype2str = {1: "cpu", 2: "gpu", 3: "cpu_pinned", 5: "cpu_shared"}
    devstr2type = {name: number for number, name in devtype2str.items()}
    _local = threading.local()

    def __init__(self, device_type, device_id=0):
        if isinstance(device_type, Context):
            device_type, device_id = device_type.device_type, device_type.device_id
        if device_type not in self.devstr2type:
            raise ValueError(f"no device is of type {device_type!r}; there are {', '.join(self.devstr2type)}")
        self.device_typeid = self.devstr2type[device_type]
        self.device_id = device_id
        self._outer = None

    @property
    def device_type(self):
        return self.devtype2str[self.device_typeid]

    @property
    def engine_id(self):
        """The engine's number of this device; raises on a device that this build has not."""
        if self.device_type == "gpu":
            raise MXNetError(f"{self}: this build computes on the CPU; use mx.cpu() (mx.context.num_gpus() is 0)")
        return self.device_id

    def __hash__(self):
        return hash((self.device_typeid, self.device_id))

    def __eq__(self, other):
        return isinstance(other, Context) and (self.device_typeid, self.device_id) == (other.device_typeid, other.device_id)

    def __repr__(self):
        return f"{self.device_type}({self.device_id})"

    def __enter__(self):
        self._outer = current_context()
        self._make_current()
        return self

    def __exit__(self, *exc):
        self._outer._make_current()

    def _make_current(self):
        if self.device_type != "gpu":
            _core.set_device(self.device_id)
        Context._local.value = self

    def empty_cache(self):
        """Nothing to do: the engine's pool keeps memory for reuse."""


Device = Context


def cpu(device_id=0):
    """The CPU; numbers above 0 are further contexts with memory and random numbers of their own."""
    return Context("cpu", device_id)


def cpu_pinned(device_id=0):
    """The same as cpu()."""
    return Context("cpu_pinned", device_id)


def gpu(device_id=0):
    """A GPU. This build has none: making an array on it raises MXNetError."""
    return Context("gpu", device_id)


def num_gpus():
    """0."""
    return 0


def gpu_memory_info(device_id=0):
    """Raises: there is no GPU."""
    raise MXNetError(f"gpu({device_id}): this build computes on the CPU")


def current_context():
    """The context that new arrays are made on."""
    value = getattr(Context._local, "value", None)
    return value if value is not None else Context("cpu", 0)


current_device = current_context
Context._default_ctx = CurrentValue(current_context, lambda context: context._make_current())


def engine_device(ctx):
    """The engine's device number for a context, None or text."""
    if ctx is None:
        ctx = current_context()
    if isinstance(ctx, (list, tuple)):
        ctx = ctx[0]
    if isinstance(ctx, str):
        kind, _, number = ctx.rstrip(")").partition("(")
        ctx = Context(kind, int(number or 0))
    if not isinstance(ctx, Context):
        raise TypeError(f"a context such as mx.cpu() is needed, not {ctx!r}")
    return ctx.engine_id


def placed(ctx, make):
    """What make(text of the context) gives, made on this context; on the current one for None."""
    device = engine_device(ctx)
    if ctx is None:
        return make(f"cpu({device})")
    with Context("cpu", device):
        return make(f"cpu({device})")
