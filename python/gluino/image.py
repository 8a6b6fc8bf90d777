"""Images: decoding, cropping, augmenting."""
import io
import random as _random

import numpy as np

from . import ndarray as nd
from .base import FileError

__all__ = ["imread", "imdecode", "imencode", "imresize", "resize_short", "fixed_crop", "random_crop", "center_crop", "color_normalize", "scale_down",
           "random_size_crop", "Augmenter", "ResizeAug", "ForceResizeAug", "RandomCropAug", "CenterCropAug", "HorizontalFlipAug", "CastAug",
           "ColorNormalizeAug", "BrightnessJitterAug", "CreateAugmenter", "ImageIter"]


def _pillow():
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("images are decoded by Pillow, which is not installed: apt install python3-pil") from None
    return Image


def imdecode(buf, flag=1, to_rgb=True, out=None):
    """An image (height, width, channel) of uint8 from the bytes of a file."""
    try:
        picture = _pillow().open(io.BytesIO(bytes(buf)))
        pixels = np.asarray(picture.convert("RGB" if flag else "L"))
    except OSError as error:
        raise FileError(f"the bytes are not an image: {error}") from None
    pixels = pixels if flag else pixels[:, :, None]
    return nd.array(pixels if to_rgb or not flag else pixels[:, :, ::-1], dtype="uint8")


def imread(filename, flag=1, to_rgb=True):
    """An image from a file."""
    with open(filename, "rb") as file:
        return imdecode(file.read(), flag, to_rgb)


def imencode(img, quality=95, img_fmt=".jpg"):
    """The bytes of a JPEG or PNG file with this image (BGR, as OpenCV has it)."""
    pixels = img.asnumpy() if hasattr(img, "asnumpy") else np.asarray(img)
    pixels = pixels.astype("uint8")
    picture = _pillow().fromarray(pixels[:, :, ::-1] if pixels.ndim == 3 and pixels.shape[2] == 3 else pixels.squeeze())
    out = io.BytesIO()
    picture.save(out, "PNG" if "png" in img_fmt.lower() else "JPEG", quality=quality)
    return out.getvalue()


def imresize(src, w, h, interp=1):
    """The image in another size."""
    return nd.image.resize(src, size=(w, h), interp=min(interp, 1))


def scale_down(src_size, size):
    """A size cut down to what fits into the source."""
    (sw, sh), (w, h) = src_size, size
    if sh < h:
        w, h = float(w * sh) / h, sh
    if sw < w:
        w, h = sw, float(h * sw) / w
    return int(w), int(h)


def resize_short(src, size, interp=2):
    """The shorter edge gets this length."""
    h, w = src.shape[:2]
    return imresize(src, *((size * w // h, size) if h < w else (size, size * h // w)), interp)


def fixed_crop(src, x0, y0, w, h, size=None, interp=2):
    """A part, in another size on demand."""
    out = src[y0:y0 + h, x0:x0 + w]
    return imresize(out, *size, interp) if size is not None and (w, h) != tuple(size) else out


def random_crop(src, size, interp=2):
    """A random part; gives it and its place."""
    h, w = src.shape[:2]
    new_w, new_h = scale_down((w, h), size)
    x0, y0 = _random.randint(0, w - new_w), _random.randint(0, h - new_h)
    return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)


def center_crop(src, size, interp=2):
    """The middle; gives it and its place."""
    h, w = src.shape[:2]
    new_w, new_h = scale_down((w, h), size)
    x0, y0 = (w - new_w) // 2, (h - new_h) // 2
    return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)


def random_size_crop(src, size, area, ratio, interp=2, **kwargs):
    """A part of random area and shape."""
    h, w = src.shape[:2]
    low, high = (area, 1.0) if isinstance(area, (int, float)) else area
    for _ in range(10):
        target = _random.uniform(low, high) * h * w
        aspect = np.exp(_random.uniform(*np.log(ratio)))
        new_w, new_h = int(round((target * aspect) ** 0.5)), int(round((target / aspect) ** 0.5))
        if new_w <= w and new_h <= h:
            x0, y0 = _random.randint(0, w - new_w), _random.randint(0, h - new_h)
            return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)
    return center_crop(src, size, interp)


def color_normalize(src, mean, std=None):
    """(src - mean) / std."""
    src = src - mean if mean is not None else src
    return src / std if std is not None else src


class Augmenter:
    """A change of an image."""

    def __init__(self, **kwargs):
        self._kwargs = kwargs

    def dumps(self):
        """Name and arguments."""
        return [type(self).__name__.lower(), self._kwargs]

    def __call__(self, src):
        raise NotImplementedError


def _augmenter(name, arguments, function, doc):
    def __init__(self, *args, **kwargs):
        values = dict(zip(arguments, args), **kwargs)
        unknown = set(values) - set(arguments)
        if unknown:
            raise TypeError(f"{name} takes {', '.join(arguments)}, not {', '.join(unknown)}")
        Augmenter.__init__(self, **values)
        self.__dict__.update(values)
    return type(name, (Augmenter,), {"__init__": __init__, "__doc__": doc, "__module__": __name__,
                                     "__call__": lambda self, src: function(src, **self._kwargs)})


ResizeAug = _augmenter("ResizeAug", ("size", "interp"), lambda src, size, interp=2: resize_short(src, size, interp), "resize_short.")
ForceResizeAug = _augmenter("ForceResizeAug", ("size", "interp"), lambda src, size, interp=2: imresize(src, *size, interp), "imresize.")
RandomCropAug = _augmenter("RandomCropAug", ("size", "interp"), lambda src, size, interp=2: random_crop(src, size, interp)[0], "random_crop.")
CenterCropAug = _augmenter("CenterCropAug", ("size", "interp"), lambda src, size, interp=2: center_crop(src, size, interp)[0], "center_crop.")
HorizontalFlipAug = _augmenter("HorizontalFlipAug", ("p",), lambda src, p: src[:, ::-1] if _random.random() < p else src, "Mirrors sometimes.")
CastAug = _augmenter("CastAug", ("typ",), lambda src, typ="float32": src.astype(typ), "Another dtype.")
ColorNormalizeAug = _augmenter("ColorNormalizeAug", ("mean", "std"), lambda src, mean, std=None: color_normalize(src, mean, std), "color_normalize.")
BrightnessJitterAug = _augmenter("BrightnessJitterAug", ("brightness",), lambda src, brightness: src * (1 + _random.uniform(-brightness, brightness)),
                                 "Lighter or darker.")


def CreateAugmenter(data_shape, resize=0, rand_crop=False, rand_resize=False, rand_mirror=False, mean=None, std=None, brightness=0, inter_method=2, **kwargs):
    """The usual changes for training."""
    made = [ResizeAug(resize, inter_method)] if resize > 0 else []
    size = data_shape[2], data_shape[1]
    made.append((RandomCropAug if rand_crop else CenterCropAug)(size, inter_method))
    if rand_mirror:
        made.append(HorizontalFlipAug(0.5))
    made.append(CastAug())
    if brightness:
        made.append(BrightnessJitterAug(brightness))
    mean = nd.array([123.68, 116.28, 103.53]) if mean is True else mean
    std = nd.array([58.395, 57.12, 57.375]) if std is True else std
    if mean is not None or std is not None:
        made.append(ColorNormalizeAug(nd.array(mean) if mean is not None else None, nd.array(std) if std is not None else None))
    return made


class ImageIter:
    """Batches of images from a RecordIO file or a list of (label, path)."""

    def __init__(self, batch_size, data_shape, label_width=1, path_imgrec=None, path_imgidx=None, imglist=None, path_root="", shuffle=False,
                 aug_list=None, **kwargs):
        from . import io as mx_io, recordio
        self.batch_size, self.data_shape, self._root, self._shuffle = batch_size, tuple(data_shape), path_root, shuffle
        self._aug = CreateAugmenter(data_shape, **kwargs) if aug_list is None else aug_list
        if path_imgrec:
            reader, self._items = recordio.MXRecordIO(path_imgrec, "r"), []
            for record in iter(reader.read, None):
                header, data = recordio.unpack(record)
                self._items.append((header.label, data))
        elif imglist is not None:
            self._items = [(item[0], item[-1]) for item in imglist]
        else:
            raise ValueError("path_imgrec or imglist is needed")
        self.provide_data = [mx_io.DataDesc("data", (batch_size, *self.data_shape))]
        self.provide_label = [mx_io.DataDesc("softmax_label", (batch_size,) if label_width == 1 else (batch_size, label_width))]
        self.reset()

    def reset(self):
        """Starts again."""
        self._at = 0
        if self._shuffle:
            _random.shuffle(self._items)

    def __iter__(self):
        return self

    def __next__(self):
        from .io import DataBatch
        items = self._items[self._at:self._at + self.batch_size]
        if not items:
            raise StopIteration
        self._at += self.batch_size
        pad = self.batch_size - len(items)
        images, labels = [], []
        for label, data in items + items[:1] * pad:
            image = imdecode(data) if isinstance(data, bytes) else imread(f"{self._root}/{data}" if self._root else data)
            for change in self._aug:
                image = change(image)
            images.append(image.transpose((2, 0, 1)).astype("float32"))
            labels.append(label)
        return DataBatch([nd.stack(*images)], [nd.array(labels)], pad=pad, provide_data=self.provide_data, provide_label=self.provide_label)

    next = __next__
