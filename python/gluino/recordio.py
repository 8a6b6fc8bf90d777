"""RecordIO files: records one after the other, with an index beside them on demand."""
import collections
import contextlib
import os

import numpy as np

from . import _core
from .base import FileError

__all__ = ["MXRecordIO", "MXIndexedRecordIO", "IRHeader", "pack", "unpack", "pack_img", "unpack_img"]

_IR_FORMAT = "IfQQ"  # of a header, as struct writes it
_IR_SIZE = 24
IRHeader = collections.namedtuple("HEADER", ["flag", "label", "id", "id2"])


class MXRecordIO:
    """Reads or writes records in order. What is written gets its name when it is closed: until then an old file stays."""

    _index = ""  # the file of the index, of a writer

    def __init__(self, uri, flag):
        if flag not in ("r", "w"):
            raise ValueError(f"Invalid flag {flag}")
        self.uri, self.flag, self.writable, self.is_open = str(uri), flag, flag == "w", False
        self.open()

    def open(self):
        """Opens the file again, from its start."""
        self._file = _core.RecordWriter(self.uri, self._index) if self.writable else _core.RecordReader(self.uri)
        self.is_open, self._pid = True, os.getpid()

    def close(self):
        """Closes the file."""
        if not self.is_open:
            return
        self.is_open, file = False, self._file
        del self._file
        if self.writable and self._pid == os.getpid():  # what a parent has begun to write is its own
            file.close()
        elif self.writable:
            file.abandon()

    def reset(self):
        """Goes back to the start."""
        self.close()
        self.open()

    def __del__(self):
        if getattr(self, "is_open", False):
            with contextlib.suppress(FileError):  # the write that failed has told so
                self.close()

    def __getstate__(self):
        kept = self.__dict__.copy()
        kept.pop("_file", None)
        return {**kept, "is_open": False}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.open()

    def _need(self, writable):
        if self.writable != writable:
            raise AssertionError(f"{self.uri} is open for {'writing' if self.writable else 'reading'}")
        if not self.is_open:
            raise ValueError(f"{self.uri} is closed; open() opens it again")
        return self._file

    def tell(self):
        """The place where the next record is written."""
        return self._need(self.writable).tell()

    def write(self, buf):
        """Appends a record."""
        self._need(True).append(bytes(buf))

    def read(self):
        """The next record; None at the end."""
        return self._need(False).read()


class MXIndexedRecordIO(MXRecordIO):
    """Records by key, through an index file."""

    def __init__(self, idx_path, uri, flag, key_type=int):
        self.idx_path, self.idx, self.keys, self.key_type = str(idx_path), {}, [], key_type
        self._index = self.idx_path
        super().__init__(uri, flag)
        if not self.writable:
            self._read_index()

    def open(self):
        super().open()
        if self.writable:
            self.idx, self.keys = {}, []

    def _read_index(self):
        if not os.path.isfile(self.idx_path):
            return
        for text, place in _core.read_record_index(self.idx_path):
            try:
                key = self.key_type(text)
            except ValueError:
                raise FileError(f"{self.idx_path}: the key {text!r} is no {self.key_type.__name__}") from None
            self.idx[key] = place
            self.keys.append(key)

    def make_index(self):
        """Numbers the records, by one pass over the file: for one whose index is not there."""
        places, file = [], self._need(False)
        file.seek(0)
        place = file.tell()
        while file.read() is not None:
            places.append(place)
            place = file.tell()
        file.seek(0)
        self.keys = [self.key_type(number) for number in range(len(places))]
        self.idx = dict(zip(self.keys, places))

    def seek(self, idx):
        """Goes to a record."""
        self._need(False).seek(self.idx[idx])

    def read_idx(self, idx):
        """A record by its key."""
        self.seek(idx)
        return self.read()

    def write_idx(self, idx, buf):
        """Appends a record under a key."""
        key = self.key_type(idx)
        self.idx[key] = self._need(True).append(bytes(buf))
        self.keys.append(key)
        self._file.add_to_index(str(key), self.idx[key])


def pack(header, s):
    """A record of a header and bytes."""
    header = IRHeader(*header)
    if isinstance(header.label, (int, float, np.number)):
        return _core.pack_record(None, float(header.label), header.id, header.id2, bytes(s))
    return _core.pack_record(np.asarray(header.label, dtype=np.float32).tobytes(), 0.0, header.id, header.id2, bytes(s))


def unpack(s):
    """Header and bytes of a record."""
    flag, labels, number, second, content = _core.unpack_record(bytes(s))
    labels = np.frombuffer(labels, np.float32)
    return IRHeader(flag, labels if flag else float(labels[0]), number, second), content


def pack_img(header, img, quality=95, img_fmt=".jpg"):
    """A record of a header and an image."""
    from .image import imencode
    return pack(header, imencode(img, quality, img_fmt))


def unpack_img(s, iscolor=-1):
    """Header and image (BGR, as OpenCV has it) of a record."""
    from .image import imdecode
    header, data = unpack(s)
    return header, imdecode(data, flag=0 if iscolor == 0 else 1, to_rgb=False).asnumpy()
