"""A Gluon DataLoader as an iterator for Module."""
from .. import ndarray as nd
from ..io import DataDesc, DataIter

__all__ = ["DataLoaderIter"]


class DataLoaderIter(DataIter):
    """Batches of a DataLoader of (data, label); the last one is filled up with zeros."""

    def __init__(self, loader, data_name="data", label_name="softmax_label", dtype="float32"):
        super().__init__()
        self._loader, self._iter, self.dtype, self._current_batch = loader, iter(loader), dtype, None
        data, label = next(self._iter)
        self.batch_size = data.shape[0]
        self.provide_data, self.provide_label = [DataDesc(data_name, data.shape, dtype)], [DataDesc(label_name, label.shape, dtype)]
        self.reset()

    def reset(self):
        self._iter = iter(self._loader)

    def iter_next(self):
        self._current_batch = next(self._iter, None)
        return self._current_batch is not None

    def _filled(self, part):
        array = self._current_batch[part].astype(self.dtype)
        if not self.getpad():
            return [array]
        whole = nd.zeros((self.batch_size, *array.shape[1:]), dtype=self.dtype)
        whole[:array.shape[0]] = array
        return [whole]

    def getdata(self):
        return self._filled(0)

    def getlabel(self):
        return self._filled(1)

    def getpad(self):
        return self.batch_size - self._current_batch[0].shape[0]

    def getindex(self):
        return None
