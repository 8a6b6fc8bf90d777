"""RecordIO files: records one after the other, with an index beside them on demand."""
import collections
import os
import struct

import numpy as np

from .base import FileError

__all__ = ["MXRecordIO", "MXIndexedRecordIO", "IRHeader", "pack", "unpack", "pack_img", "unpack_img"]

_MAGIC = 0xCED7230A
IRHeader = collections.namedtuple("HEADER", ["flag", "label", "id", "id2"])
_IR_FORMAT = "IfQQ"
_IR_SIZE = struct.calcsize(_IR_FORMAT)


class MXRecordIO:
    """Reads or writes records in order."""

    def __init__(self, uri, flag):
        if flag not in ("r", "w"):
            raise ValueError(f"Invalid flag {flag}")
        self.uri, self.flag, self.writable, self.is_open = str(uri), flag, flag == "w", False
        self.open()

    def open(self):
        """Opens the file again, from its start."""
        try:
            self._file = open(self.uri, "wb" if self.writable else "rb")
        except OSError as error:
            raise FileError(f"{self.uri}: {error.strerror}") from None
        self.is_open, self._pid = True, os.getpid()

    def close(self):
        """Closes the file."""
        if self.is_open:
            self._file.close()
            self.is_open = False

    def reset(self):
        """Goes back to the start."""
        self.close()
        self.open()

    def __del__(self):
        if getattr(self, "is_open", False):
            self.close()

    def __getstate__(self):
        kept = self.__dict__.copy()
        kept.pop("_file", None)
        return {**kept, "is_open": False}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.open()

    def _after_fork(self):
        # A child process must not share the position in the file with its parent.
        if self._pid != os.getpid():
            self.reset()

    def tell(self):
        """The place where the next record is written."""
        return self._file.tell()

    def write(self, buf):
        """Appends a record."""
        if not self.writable:
            raise AssertionError(f"{self.uri} is open for reading")
        self._file.write(struct.pack("<II", _MAGIC, len(buf)) + buf + b"\0" * (-len(buf) % 4))

    def read(self):
        """The next record; None at the end."""
        if self.writable:
            raise AssertionError(f"{self.uri} is open for writing")
        self._after_fork()
        parts = []
        while True:
            header = self._file.read(8)
            if not header and not parts:
                return None
            if len(header) < 8:
                raise FileError(f"{self.uri}: the file ends inside a record")
            magic, length = struct.unpack("<II", header)
            if magic != _MAGIC:
                raise FileError(f"{self.uri}: no record starts at byte {self._file.tell() - 8}; is it a RecordIO file?")
            kind, size = length >> 29, length & ((1 << 29) - 1)
            data = self._file.read(size)
            if len(data) < size:
                raise FileError(f"{self.uri}: the file ends inside a record")
            self._file.read(-size % 4)
            parts.append(data)
            if kind in (0, 3):  # a whole record, or the last part of one that held the magic number
                return struct.pack("<I", _MAGIC).join(parts)


class MXIndexedRecordIO(MXRecordIO):
    """Records by key, through an index file."""

    def __init__(self, idx_path, uri, flag, key_type=int):
        self.idx_path, self.idx, self.keys, self.key_type = str(idx_path), {}, [], key_type
        super().__init__(uri, flag)
        if not self.writable and os.path.isfile(self.idx_path):
            with open(self.idx_path) as file:
                for line in file:
                    key, place = line.strip().split("\t")
                    self.idx[key_type(key)] = int(place)
                    self.keys.append(key_type(key))

    def close(self):
        if self.is_open and self.writable:
            with open(self.idx_path, "w") as file:
                file.writelines(f"{key}\t{self.idx[key]}\n" for key in self.keys)
        super().close()

    def seek(self, idx):
        """Goes to a record."""
        self._after_fork()
        self._file.seek(self.idx[idx])

    def read_idx(self, idx):
        """A record by its key."""
        self.seek(idx)
        return self.read()

    def write_idx(self, idx, buf):
        """Appends a record under a key."""
        self.idx[self.key_type(idx)] = self.tell()
        self.keys.append(self.key_type(idx))
        self.write(buf)


def pack(header, s):
    """A record of a header and bytes."""
    header = IRHeader(*header)
    if isinstance(header.label, (int, float, np.number)):
        return struct.pack(_IR_FORMAT, 0, float(header.label), header.id, header.id2) + s
    label = np.asarray(header.label, dtype=np.float32)
    return struct.pack(_IR_FORMAT, label.size, 0.0, header.id, header.id2) + label.tobytes() + s


def unpack(s):
    """Header and bytes of a record."""
    header = IRHeader(*struct.unpack(_IR_FORMAT, s[:_IR_SIZE]))
    s = s[_IR_SIZE:]
    if header.flag > 0:
        header = header._replace(label=np.frombuffer(s, np.float32, header.flag))
        s = s[header.flag * 4:]
    return header, s


def pack_img(header, img, quality=95, img_fmt=".jpg"):
    """A record of a header and an image."""
    from .image import imencode
    return pack(header, imencode(img, quality, img_fmt))


def unpack_img(s, iscolor=-1):
    """Header and image (BGR, as OpenCV has it) of a record."""
    from .image import imdecode
    header, data = unpack(s)
    return header, imdecode(data, flag=0 if iscolor == 0 else 1, to_rgb=False).asnumpy()
