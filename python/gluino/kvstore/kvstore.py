"""KVStore: values by key, summed over devices of this process."""
from .. import _core, optimizer as opt
from ..base import MXNetError
from .base import KVStoreBase

__all__ = ["KVStore"]


class KVStore(KVStoreBase):
    """The local store; there is one worker."""

    def __init__(self, handle):
        self._kind, self._values, self._updater = handle, {}, None

    @property
    def type(self):
        """What create() was asked for."""
        return self._kind

    def is_capable(self, capability):
        """Whether the store can do something: it runs optimizers."""
        return capability.lower() == KVStoreBase.OPTIMIZER

    @staticmethod
    def _pairs(keys, values):
        if isinstance(keys, (list, tuple)):
            return list(zip(keys, values))
        return [(keys, values)]

    @staticmethod
    def _sum(value):
        parts = value if isinstance(value, (list, tuple)) else [value]
        total = parts[0].copy()
        for part in parts[1:]:
            total += part.as_in_context(total.context)  # of row_sparse arrays the rows that are stored
        return total

    def init(self, key, value):
        """First values."""
        for k, v in self._pairs(key, value):
            if k in self._values:
                raise MXNetError(f"duplicate init of key {k}")
            self._values[k] = (v[0] if isinstance(v, (list, tuple)) else v).copy()

    def push(self, key, value, priority=0):
        """Sums values of devices; the updater, if any, changes the stored one."""
        for k, v in self._pairs(key, value):
            if k not in self._values:
                raise MXNetError(f"key {k} has not been inited")
            total = self._sum(v)
            if self._updater is None:
                self._values[k] = total
            else:
                self._updater(k, total.as_in_context(self._values[k].context), self._values[k])

    def pull(self, key, out=None, priority=0, ignore_sparse=True):
        """Copies stored values into arrays."""
        for k, targets in self._pairs(key, out):
            if k not in self._values:
                raise MXNetError(f"key {k} has not been inited")
            for target in targets if isinstance(targets, (list, tuple)) else [targets]:
                target[:] = self._values[k].as_in_context(target.context)

    def pushpull(self, key, value, out=None, priority=0):
        """push, then pull."""
        self.push(key, value)
        if out is not None:
            self.pull(key, out)

    def broadcast(self, key, value, out, priority=0):
        """init, then pull."""
        self.init(key, value)
        self.pull(key, out)

    def row_sparse_pull(self, key, out=None, priority=0, row_ids=None):
        """Copies rows of stored values into arrays: those that row_ids names, the others become 0."""
        from ..ndarray import sparse
        if out is None or row_ids is None:
            raise AssertionError("row_sparse_pull needs out and row_ids")
        for (k, targets), (_, rows) in zip(self._pairs(key, out), self._pairs(key, row_ids)):
            if k not in self._values:
                raise MXNetError(f"key {k} has not been inited")
            targets = targets if isinstance(targets, (list, tuple)) else [targets]
            for target, chosen in zip(targets, rows if isinstance(rows, (list, tuple)) else [rows] * len(targets)):
                sparse.rows_of(self._values[k], chosen.reshape(-1)).as_in_context(target.context).copyto(target)

    def set_optimizer(self, optimizer):
        """push() updates with this optimizer from now on."""
        self._updater = opt.get_updater(optimizer)

    def set_updater(self, updater):
        """push() calls updater(key, value, stored)."""
        self._updater = updater

    _set_updater = set_updater

    def set_gradient_compression(self, compression_params):
        """Checks what is asked for; in one process nothing travels that could be compressed."""
        if "device" not in self.type:
            raise Exception("Gradient compression is not supported for this type of kvstore")
        kind, threshold = compression_params.get("type"), float(compression_params.get("threshold", 0.5))
        if kind != "2bit" or threshold <= 0:
            raise MXNetError(f"gradient compression {compression_params} is not there; 'type' can be '2bit', with a 'threshold' above 0")

    def save_optimizer_states(self, fname, dump_optimizer=False):
        """Writes the updater's states."""
        if self._updater is None:
            raise AssertionError("Cannot save states for distributed training")
        _core.write_files([(str(fname), self._updater.get_states(dump_optimizer))])

    def load_optimizer_states(self, fname, allow_pickle=False):
        """Reads the updater's states; a pickle, which runs the code that is in it, only with allow_pickle."""
        if self._updater is None:
            raise AssertionError("Cannot load states for distributed training")
        self._updater.set_states(_core.read_file(str(fname)), allow_pickle, str(fname))
        self._updater.check_weights({key: (str(key), value.shape) for key, value in self._values.items()}, str(fname))
