"""Images: decoding, cropping, augmenting."""
import inspect
import json
import random as _random

import numpy as np

from .. import _core, ndarray as nd
from ..io import DataBatch, DataDesc, DataIter
from ..util import is_np_array

__all__ = ["imread", "imdecode", "imencode", "imresize", "resize_short", "fixed_crop", "random_crop", "center_crop", "color_normalize", "scale_down",
           "random_size_crop", "copyMakeBorder", "imrotate", "random_rotate", "Augmenter", "SequentialAug", "RandomOrderAug", "ResizeAug",
           "ForceResizeAug", "RandomCropAug", "RandomSizedCropAug", "CenterCropAug", "HorizontalFlipAug", "CastAug", "ColorNormalizeAug",
           "BrightnessJitterAug", "ContrastJitterAug", "SaturationJitterAug", "HueJitterAug", "ColorJitterAug", "LightingAug", "RandomGrayAug",
           "CreateAugmenter", "ImageIter"]


def _flavoured(made, like=None):
    """An array of mx.np where the source is one, or where new arrays are."""
    return _core.as_flavour(made, isinstance(like, np_ndarray()) if like is not None else is_np_array())


def np_ndarray():
    """The class of mx.np's arrays."""
    from ..numpy import ndarray
    return ndarray


def imdecode(buf, flag=1, to_rgb=True, out=None):
    """An image (height, width, channel) of uint8 from the bytes of a file."""
    pixels = _core.decode_image(bytes(buf.asnumpy() if isinstance(buf, nd.NDArray) else buf), bool(flag))
    pixels = pixels if to_rgb or not flag else pixels[:, :, ::-1]
    if out is None:
        return _flavoured(pixels)
    out[:] = pixels
    return out


def imread(filename, flag=1, to_rgb=True):
    """An image from a file."""
    with open(filename, "rb") as file:
        return imdecode(file.read(), flag, to_rgb)


def imencode(img, quality=95, img_fmt=".jpg"):
    """The bytes of a JPEG or PNG file with this image (BGR, as OpenCV has it)."""
    pixels = np.asarray(img.asnumpy() if hasattr(img, "asnumpy") else img, dtype="uint8")
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels[:, :, ::-1]
    return _core.encode_image(nd.array(pixels, dtype="uint8"), img_fmt.lower(), quality)


def imresize(src, w, h, interp=1):
    """The image in another size. interp: 0 takes the nearest pixel, 1 is bilinear, 2 cubic, 3 by area, 4 Lanczos, 9 and 10 choose."""
    height, width = src.shape[:2]
    return _flavoured(nd.image.resize(src, size=(w, h), interp=get_interp_method(interp, (height, width, h, w))), src)


def get_interp_method(interp, sizes=()):
    """OpenCV's number of a method: 9 chooses by the sizes (old height, old width, new height, new width), 10 at random."""
    if interp == 9:
        if sizes and len(sizes) != 4:
            raise AssertionError("sizes are (old height, old width, new height, new width)")
        old_h, old_w, new_h, new_w = sizes or (1, 1, 1, 1)
        return 2 if new_h > old_h and new_w > old_w else 3 if new_h < old_h and new_w < old_w else 1
    if interp == 10:
        return _random.randint(0, 4)
    if interp not in (0, 1, 2, 3, 4):
        raise ValueError(f"Unknown interp method {interp}")
    return interp


_get_interp_method = get_interp_method  # by this name other libraries import it


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
    def like_src(value):  # a number, or an array of the kind of src
        return _flavoured(value, src) if isinstance(value, nd.NDArray) else value
    src = src - like_src(mean) if mean is not None else src
    return src / like_src(std) if std is not None else src


def copyMakeBorder(src, top, bot, left, right, type=0, value=0, values=None):
    """The image with a border of one colour (type 0), or of its edge (type 1)."""
    if type not in (0, 1):
        raise ValueError(f"copyMakeBorder: type is 0 (constant) or 1 (edge), not {type}")
    widths, colours = ((top, bot), (left, right)), values or [value] * src.shape[2]
    options = [{"mode": "edge"} if type else {"constant_values": colour} for colour in colours]
    pixels = src.asnumpy()
    padded = np.stack([np.pad(pixels[:, :, i], widths, **option) for i, option in enumerate(options)], axis=2)
    return _flavoured(nd.array(padded, dtype=src.dtype), src)


def imrotate(src, rotation_degrees, zoom_in=False, zoom_out=False):
    """Images (channel, height, width), or a batch of them, turned counter-clockwise; black where nothing was."""
    if zoom_in and zoom_out:
        raise ValueError("`zoom_in` and `zoom_out` cannot be both True")
    if src.dtype != np.float32:
        raise TypeError("Only `float32` images are supported by this function")
    images = src.expand_dims(0) if src.ndim == 3 else src
    count, _, height, width = images.shape
    degrees = rotation_degrees.asnumpy() if isinstance(rotation_degrees, nd.NDArray) else rotation_degrees
    angles = np.deg2rad(np.broadcast_to(np.asarray(degrees, dtype="float64"), (count,)))
    cos, sin, ratio = np.cos(angles), np.sin(angles), height / width
    # In coordinates from -1 to 1 the axes of an image that is not square have different units.
    affine = np.stack([cos, -sin * ratio, 0 * cos, sin / ratio, cos, 0 * cos], axis=1)
    if zoom_in or zoom_out:
        reach = np.maximum(abs(cos) + abs(sin) * ratio, abs(cos) + abs(sin) / ratio)
        affine = affine * (reach if zoom_out else 1 / reach)[:, None]
    grid = nd.GridGenerator(_flavoured(nd.array(affine), src), transform_type="affine", target_shape=(height, width))
    turned = nd.BilinearSampler(images, grid)
    return turned[0] if src.ndim == 3 else turned


def random_rotate(src, angle_limits, zoom_in=False, zoom_out=False):
    """Images turned by random angles between two limits."""
    if src.ndim == 3:
        return imrotate(src, _random.uniform(*angle_limits), zoom_in, zoom_out)
    return imrotate(src, nd.array([_random.uniform(*angle_limits) for _ in range(src.shape[0])]), zoom_in, zoom_out)


def _listed(value):
    value = value.asnumpy() if isinstance(value, nd.NDArray) else value
    return value.tolist() if isinstance(value, np.ndarray) else value


class Augmenter:
    """A change of an image."""

    def __init__(self, **kwargs):
        self._kwargs = {name: _listed(value) for name, value in kwargs.items()}

    def dumps(self):
        """Name and arguments as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src):
        raise NotImplementedError("Must override implementation.")


def _augmenter(name, function, doc):
    """A class of the arguments that `function` takes beside the image."""
    signature = inspect.signature(function)
    signature = signature.replace(parameters=list(signature.parameters.values())[1:])

    def __init__(self, *args, **kwargs):
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        Augmenter.__init__(self, **given.arguments)
        self._values = dict(given.arguments)
        self.__dict__.update(self._values)
    return type(name, (Augmenter,), {"__init__": __init__, "__doc__": doc, "__module__": __name__, "__signature__": signature,
                                     "__call__": lambda self, src: function(src, **self._values)})


ResizeAug = _augmenter("ResizeAug", lambda src, size, interp=2: resize_short(src, size, interp), "resize_short.")
ForceResizeAug = _augmenter("ForceResizeAug", lambda src, size, interp=2: imresize(src, *size, interp), "imresize.")
RandomCropAug = _augmenter("RandomCropAug", lambda src, size, interp=2: random_crop(src, size, interp)[0], "random_crop.")
CenterCropAug = _augmenter("CenterCropAug", lambda src, size, interp=2: center_crop(src, size, interp)[0], "center_crop.")
HorizontalFlipAug = _augmenter("HorizontalFlipAug", lambda src, p: src[:, ::-1] if _random.random() < p else src, "Mirrors sometimes.")
CastAug = _augmenter("CastAug", lambda src, typ="float32": src.astype(typ), "Another dtype.")
ColorNormalizeAug = _augmenter("ColorNormalizeAug", lambda src, mean, std=None: color_normalize(src, mean, std), "color_normalize.")
RandomSizedCropAug = _augmenter("RandomSizedCropAug", lambda src, size, area, ratio, interp=2: random_size_crop(src, size, area, ratio, interp)[0], "random_size_crop.")


# ---- colours

_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
_LIGHT_VALUES = np.array([55.46, 4.794, 1.148])  # of the colours of ImageNet
_LIGHT_VECTORS = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])


def _gray(src):
    return nd.broadcast_mul(src, _flavoured(nd.array([0.299, 0.587, 0.114]), src)).sum(axis=2, keepdims=True)


def _blended(src, amount, other):
    """Some of the image, the rest of another."""
    share = 1.0 + _random.uniform(-amount, amount)
    return src * share + other(src) * (1.0 - share)


def _turned_hue(src, hue):
    angle = _random.uniform(-hue, hue) * np.pi
    cos, sin = np.cos(angle), np.sin(angle)
    turn = np.linalg.inv(_YIQ) @ np.array([[1, 0, 0], [0, cos, -sin], [0, sin, cos]]) @ _YIQ
    return nd.dot(src, _flavoured(nd.array(turn.T), src))


def _lit(src, alphastd, eigval=_LIGHT_VALUES, eigvec=_LIGHT_VECTORS):
    light = np.asarray(eigvec) @ (np.random.normal(0, alphastd, 3) * np.asarray(eigval))
    return nd.broadcast_add(src, _flavoured(nd.array(light), src))


def _grayed(src, p):
    return nd.broadcast_axis(_gray(src), axis=2, size=3) if _random.random() < p else src


BrightnessJitterAug = _augmenter("BrightnessJitterAug", lambda src, brightness: _blended(src, brightness, lambda x: x * 0), "Lighter or darker.")
ContrastJitterAug = _augmenter("ContrastJitterAug", lambda src, contrast: _blended(src, contrast, lambda x: _gray(x).mean()), "More or less contrast.")
SaturationJitterAug = _augmenter("SaturationJitterAug", lambda src, saturation: _blended(src, saturation, _gray),
                                 "More or less colour.")
HueJitterAug = _augmenter("HueJitterAug", _turned_hue, "Other colours.")
LightingAug = _augmenter("LightingAug", _lit, "Another light (Krizhevsky et al., 2012).")
RandomGrayAug = _augmenter("RandomGrayAug", _grayed, "Without colours sometimes.")


class SequentialAug(Augmenter):
    """One change after the other."""

    def __init__(self, ts):
        super().__init__()
        self.ts = ts

    def dumps(self):
        return [type(self).__name__.lower(), [change.dumps() for change in self.ts]]

    def __call__(self, src):
        for change in self.ts:
            src = change(src)
        return src


class RandomOrderAug(SequentialAug):
    """Changes in a random order."""

    def __call__(self, src):
        _random.shuffle(self.ts)
        return super().__call__(src)


class ColorJitterAug(RandomOrderAug):
    """Brightness, contrast and saturation in a random order."""

    def __init__(self, brightness, contrast, saturation):
        kinds = (BrightnessJitterAug, brightness), (ContrastJitterAug, contrast), (SaturationJitterAug, saturation)
        super().__init__([kind(amount) for kind, amount in kinds if amount > 0])


def CreateAugmenter(data_shape, resize=0, rand_crop=False, rand_resize=False, rand_mirror=False, mean=None, std=None, brightness=0, contrast=0,
                    saturation=0, hue=0, pca_noise=0, rand_gray=0, inter_method=2):
    """The usual changes for training."""
    made = [ResizeAug(resize, inter_method)] if resize > 0 else []
    size = data_shape[2], data_shape[1]
    if rand_resize:
        if not rand_crop:
            raise AssertionError("rand_resize needs rand_crop")
        made.append(RandomSizedCropAug(size, 0.08, (3.0 / 4.0, 4.0 / 3.0), inter_method))
    else:
        made.append((RandomCropAug if rand_crop else CenterCropAug)(size, inter_method))
    if rand_mirror:
        made.append(HorizontalFlipAug(0.5))
    made.append(CastAug())
    if brightness or contrast or saturation:
        made.append(ColorJitterAug(brightness, contrast, saturation))
    made += [kind(amount) for kind, amount in ((HueJitterAug, hue), (LightingAug, pca_noise), (RandomGrayAug, rand_gray)) if amount > 0]
    mean = nd.array([123.68, 116.28, 103.53]) if mean is True else mean
    std = nd.array([58.395, 57.12, 57.375]) if std is True else std
    if mean is not None or std is not None:
        made.append(ColorNormalizeAug(nd.array(mean) if mean is not None else None, nd.array(std) if std is not None else None))
    return made


class ImageIter(DataIter):
    """Batches of images from a RecordIO file, a file with lines "index label path", or a list of (label, path)."""

    def __init__(self, batch_size, data_shape, label_width=1, path_imgrec=None, path_imglist=None, path_root=None, path_imgidx=None, shuffle=False,
                 part_index=0, num_parts=1, aug_list=None, imglist=None, data_name="data", label_name="softmax_label", dtype="float32",
                 last_batch_handle="pad", **kwargs):
        super().__init__(batch_size)
        if dtype not in ("int32", "float32", "int64", "float64", "uint8", "float16"):
            raise AssertionError(f"{dtype} label not supported")
        self.check_data_shape(data_shape)
        self.data_shape, self.path_root, self.shuffle = tuple(data_shape), path_root, shuffle
        self.dtype, self.last_batch_handle, self.label_width = dtype, last_batch_handle, label_width
        self.auglist = CreateAugmenter(data_shape, **kwargs) if aug_list is None else aug_list
        items = self._read(path_imgrec, path_imglist, imglist)
        self._items = items[len(items) * part_index // num_parts:len(items) * (part_index + 1) // num_parts]
        self._left = []  # what the last round had too much
        self.seq, self.num_image = list(range(len(self._items))), len(self._items)  # the images' numbers, as they come
        self.provide_data = [DataDesc(data_name, (batch_size, *self.data_shape), dtype)]
        self.provide_label = [DataDesc(label_name, (batch_size,) if label_width == 1 else (batch_size, label_width))]
        self.reset()

    @staticmethod
    def _read(path_imgrec, path_imglist, imglist):
        """(label, bytes or path) of all images."""
        from .. import recordio
        if path_imgrec:
            reader = recordio.MXRecordIO(path_imgrec, "r")
            unpacked = [recordio.unpack(record) for record in iter(reader.read, None)]
            return [(header.label, data) for header, data in unpacked]
        if path_imglist:
            with open(path_imglist, encoding="utf-8") as file:
                lines = [line.strip().split("\t") for line in file if line.strip()]
            return [(np.array(line[1:-1], np.float32), line[-1]) for line in lines]
        if imglist is None:
            raise ValueError("path_imgrec, path_imglist or imglist is needed")
        return [(item[0] if len(item) == 2 else np.array(item[:-1], np.float32), item[-1]) for item in imglist]

    def reset(self):
        """Starts again."""
        if self.shuffle:
            _random.shuffle(self.seq)
        self._queue, self._left, self.cur = [*self._left, *(self._items[i] for i in self.seq)], [], 0

    def hard_reset(self):
        """Starts again, forgetting what rolled over."""
        self._left = []
        self.reset()

    def next_sample(self):
        """(label, bytes or path) of the next image; raises StopIteration."""
        if self.cur >= len(self._queue):
            raise StopIteration
        self.cur += 1
        label, data = self._queue[self.cur - 1]
        return label, data if isinstance(data, bytes) else self.read_image(data)

    # ---- steps that derived classes may replace

    def check_data_shape(self, data_shape):
        """Raises where the shape is not (channels, height, width)."""
        if len(data_shape) != 3:
            raise ValueError("data_shape should have length 3, with dimensions CxHxW")
        if data_shape[0] != 3:
            raise ValueError("This iterator expects inputs to have 3 channels.")

    def check_valid_image(self, data):
        """Raises where the image has no pixels."""
        if len(data[0].shape) == 0:
            raise RuntimeError("Data shape is wrong")

    def read_image(self, fname):
        """The bytes of an image's file."""
        import os
        with open(os.path.join(self.path_root, fname) if self.path_root else fname, "rb") as file:
            return file.read()

    def imdecode(self, s):
        """The image of a file's bytes."""
        return imdecode(s)

    def augmentation_transform(self, data):
        """The image after all changes."""
        for change in self.auglist:
            data = change(data)
        return data

    def postprocess_data(self, datum):
        """(height, width, channel) to (channel, height, width)."""
        return datum.transpose((2, 0, 1))

    def _sample(self):
        label, data = self.next_sample()
        picture = self.imdecode(data)
        self.check_valid_image([picture])
        return label, self.postprocess_data(self.augmentation_transform(picture)).astype(self.dtype)

    def _labels(self, labels):
        rows = np.array([np.asarray(label, np.float32).reshape(-1)[:self.label_width] for label in labels])
        return nd.array(rows[:, 0] if self.label_width == 1 else rows)

    def next(self):
        """The next batch."""
        rest = len(self._queue) - self.cur
        if rest <= 0 or (rest < self.batch_size and self.last_batch_handle != "pad"):
            if self.last_batch_handle == "roll_over":
                self._left = self._queue[self.cur:]
            raise StopIteration
        pad = max(0, self.batch_size - rest)
        samples = [self._sample() for _ in range(self.batch_size - pad)]
        for i in range(pad):  # the last batch is filled with images from the start
            self.cur = i % len(self._queue)
            samples.append(self._sample())
        self.cur = len(self._queue) if pad else self.cur
        return DataBatch([_flavoured(nd.stack(*[picture for _, picture in samples]))], [_flavoured(self._labels([label for label, _ in samples]))],
                         pad=pad, provide_data=self.provide_data, provide_label=self.provide_label)
