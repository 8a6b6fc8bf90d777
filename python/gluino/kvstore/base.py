"""KVStoreBase: what a store of one's own must do; registered, create() finds it by name."""
from ..base import MXNetError

__all__ = ["KVStoreBase", "TestStore", "create"]


class KVStoreBase:
    """The interface that Trainer uses: broadcast first values, sum gradients with pushpull."""

    OPTIMIZER = "optimizer"
    kv_registry = {}

    @staticmethod
    def register(klass):
        """Makes a store known by the lower-case name of its class."""
        if not isinstance(klass, type):
            raise AssertionError("register takes a class")
        KVStoreBase.kv_registry[klass.__name__.lower()] = klass
        return klass

    def broadcast(self, key, value, out, priority=0):
        """Gives all workers the first worker's values."""
        raise NotImplementedError

    def pushpull(self, key, value, out=None, priority=0):
        """Sums values over devices and workers, into `out` or in place."""
        raise NotImplementedError

    def set_optimizer(self, optimizer):
        """The optimizer that the store runs."""
        raise NotImplementedError

    @staticmethod
    def is_capable(capability):
        """Whether the store can do something: KVStoreBase.OPTIMIZER."""
        raise NotImplementedError

    def save_optimizer_states(self, fname, dump_optimizer=False):
        """Writes the optimizer's states."""
        raise NotImplementedError

    def load_optimizer_states(self, fname):
        """Reads the optimizer's states."""
        raise NotImplementedError

    @property
    def type(self):
        """The name that create() takes."""
        raise NotImplementedError

    @property
    def rank(self):
        """The number of this worker: 0 where there is one alone."""
        return 0

    @property
    def num_workers(self):
        """How many workers there are."""
        return 1


_NO_OPTIMIZER = "TestStore runs no optimizer; use kvstore.create('local')"


@KVStoreBase.register
class TestStore(KVStoreBase):
    """A store that copies and sums, and nothing else; for tests."""

    def broadcast(self, key, value, out, priority=0):
        for target in out if isinstance(out, (list, tuple)) else [out]:
            target[:] = value.as_in_context(target.context)

    def pushpull(self, key, value, out=None, priority=0):
        parts = value if isinstance(value, (list, tuple)) else [value]
        total = sum((part.as_in_context(parts[0].context) for part in parts[1:]), parts[0])
        targets = parts if out is None else out if isinstance(out, (list, tuple)) else [out]
        for target in targets:
            target[:] = total.as_in_context(target.context)

    @staticmethod
    def is_capable(capability):
        if capability.lower() != KVStoreBase.OPTIMIZER:
            raise MXNetError(f"Unknown capability: {capability}")
        return False

    def set_optimizer(self, optimizer):
        raise NotImplementedError(_NO_OPTIMIZER)

    def save_optimizer_states(self, fname, dump_optimizer=False):
        raise NotImplementedError(_NO_OPTIMIZER)

    def load_optimizer_states(self, fname):
        raise NotImplementedError(_NO_OPTIMIZER)

    @property
    def type(self):
        return "teststore"


def create(name="local"):
    """A store: 'local' and 'device' are the same here, 'dist_sync' sums over all ranks; others by the names they were registered with."""
    from .dist import DistKVStore
    from .kvstore import KVStore
    if not isinstance(name, str):
        raise TypeError("name must be a string")
    if name.lower() in KVStoreBase.kv_registry:
        return KVStoreBase.kv_registry[name.lower()]()
    if name in ("dist_sync", "dist_device_sync", "dist_sync_device", "dist_async", "dist"):
        return DistKVStore(name)
    if name not in ("local", "device", "local_allreduce_cpu", "local_allreduce_device", "nccl"):
        raise MXNetError(f"kvstore '{name}' is not available; 'local' and 'device' train in one process, 'dist_sync' on all ranks")
    return KVStore(name)
