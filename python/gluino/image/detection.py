"""Images with boxes around their objects: changes of both, and an iterator over them.

The label of an image is a matrix: one row (class, left, top, right, bottom, ...) per object, coordinates from 0 to 1."""
import json
import random as _random

import numpy as np

from .. import ndarray as nd
from ..io import DataDesc
from .image import Augmenter, CastAug, ColorJitterAug, ColorNormalizeAug, ForceResizeAug, HueJitterAug, ImageIter, LightingAug, RandomGrayAug
from .image import ResizeAug, copyMakeBorder, fixed_crop

__all__ = ["DetAugmenter", "DetBorrowAug", "DetRandomSelectAug", "DetHorizontalFlipAug", "DetRandomCropAug", "DetRandomPadAug",
           "CreateMultiRandCropAugmenter", "CreateDetAugmenter", "ImageDetIter"]


class DetAugmenter:
    """A change of an image and its label."""

    def __init__(self, **kwargs):
        self._kwargs = {name: value.asnumpy().tolist() if isinstance(value, nd.NDArray) else np.asarray(value).tolist() if isinstance(value, np.ndarray)
                        else value for name, value in kwargs.items()}

    def dumps(self):
        """Name and arguments as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src, label):
        raise NotImplementedError("Must override implementation.")


class DetBorrowAug(DetAugmenter):
    """A change of the image alone, which leaves the boxes where they are."""

    def __init__(self, augmenter):
        if not isinstance(augmenter, Augmenter):
            raise TypeError("Borrowing from invalid Augmenter")
        super().__init__(augmenter=augmenter.dumps())
        self.augmenter = augmenter

    def dumps(self):
        return [type(self).__name__.lower(), self.augmenter.dumps()]

    def __call__(self, src, label):
        return self.augmenter(src), label


class DetRandomSelectAug(DetAugmenter):
    """One of several changes, or none with probability skip_prob."""

    def __init__(self, aug_list, skip_prob=0):
        super().__init__(skip_prob=skip_prob)
        aug_list = aug_list if isinstance(aug_list, (list, tuple)) else [aug_list]
        for change in aug_list:
            if not isinstance(change, DetAugmenter):
                raise ValueError("Allow DetAugmenter in list only")
        self.aug_list, self.skip_prob = aug_list, skip_prob if aug_list else 1

    def dumps(self):
        return [type(self).__name__.lower(), [change.dumps() for change in self.aug_list]]

    def __call__(self, src, label):
        return (src, label) if _random.random() < self.skip_prob else _random.choice(self.aug_list)(src, label)


class DetHorizontalFlipAug(DetAugmenter):
    """Mirrors sometimes, boxes too."""

    def __init__(self, p):
        super().__init__(p=p)
        self.p = p

    def __call__(self, src, label):
        if _random.random() < self.p:
            src, label = src[:, ::-1], label.copy()
            label[:, [1, 3]] = 1.0 - label[:, [3, 1]]
        return src, label


def _area(boxes):
    return np.maximum(0, boxes[:, 2] - boxes[:, 0]) * np.maximum(0, boxes[:, 3] - boxes[:, 1])


def _clipped(boxes, x, y, w, h):
    """The part of boxes within a window, in the coordinates of the whole."""
    return np.stack([np.maximum(boxes[:, 0], x), np.maximum(boxes[:, 1], y), np.minimum(boxes[:, 2], x + w), np.minimum(boxes[:, 3], y + h)], axis=1)


def _random_window(height, width, ratios, areas, grow):
    """(x, y, w, h) in pixels with a random shape and area; None where it does not fit. `grow`: the image lies in it, else it in the image."""
    ratio, area = _random.uniform(*ratios), _random.uniform(*areas) * height * width
    h, w = int(round((area / ratio) ** 0.5)), int(round((area * ratio) ** 0.5))
    if grow:
        return None if h < height or w < width else (_random.randint(0, w - width), _random.randint(0, h - height), w, h)
    return None if not 0 < h <= height or not 0 < w <= width else (_random.randint(0, width - w), _random.randint(0, height - h), w, h)


class DetRandomCropAug(DetAugmenter):
    """A random part in which enough of an object is seen; objects that are mostly outside are dropped."""

    def __init__(self, min_object_covered=0.1, aspect_ratio_range=(0.75, 1.33), area_range=(0.05, 1.0), min_eject_coverage=0.3, max_attempts=50):
        ratios = aspect_ratio_range if isinstance(aspect_ratio_range, (tuple, list)) else (aspect_ratio_range,) * 2
        areas = area_range if isinstance(area_range, (tuple, list)) else (area_range, 1.0)
        super().__init__(min_object_covered=min_object_covered, aspect_ratio_range=ratios, area_range=areas, min_eject_coverage=min_eject_coverage,
                         max_attempts=max_attempts)
        self.min_object_covered, self.min_eject_coverage, self.max_attempts = min_object_covered, min_eject_coverage, max_attempts
        self.aspect_ratio_range, self.area_range = ratios, areas
        self.enabled = areas[1] > 0 and areas[0] <= areas[1] and 0 < ratios[0] <= ratios[1]

    def __call__(self, src, label):
        height, width = src.shape[:2]
        for _ in range(self.max_attempts if self.enabled else 0):
            window = _random_window(height, width, self.aspect_ratio_range, self.area_range, grow=False)
            changed = None if window is None else self._label_in(label, *(np.array(window) / [width, height, width, height]))
            if changed is not None:
                x, y, w, h = window
                return fixed_crop(src, x, y, w, h), changed
        return src, label

    def _label_in(self, label, x, y, w, h):
        boxes = label[:, 1:5]
        whole = np.maximum(_area(boxes), 1e-12)
        seen = _area(_clipped(boxes, x, y, w, h)) / whole
        objects = seen[_area(boxes) > 0]
        if not (objects > 0).any() or objects[objects > 0].min() < self.min_object_covered:
            return None
        kept = label[seen > self.min_eject_coverage].copy()
        if not len(kept):
            return None
        kept[:, 1:5] = (_clipped(kept[:, 1:5], x, y, w, h) - [x, y, x, y]) / [w, h, w, h]
        return kept


class DetRandomPadAug(DetAugmenter):
    """A larger image of one colour, in which this one lies somewhere."""

    def __init__(self, aspect_ratio_range=(0.75, 1.33), area_range=(1.0, 3.0), max_attempts=50, pad_val=(128, 128, 128)):
        pad_val = tuple(pad_val) if isinstance(pad_val, (tuple, list)) else (pad_val,) * 3
        ratios = aspect_ratio_range if isinstance(aspect_ratio_range, (tuple, list)) else (aspect_ratio_range,) * 2
        areas = area_range if isinstance(area_range, (tuple, list)) else (1.0, area_range)
        super().__init__(aspect_ratio_range=ratios, area_range=areas, max_attempts=max_attempts, pad_val=pad_val)
        self.pad_val, self.max_attempts, self.aspect_ratio_range, self.area_range = pad_val, max_attempts, ratios, areas
        self.enabled = areas[1] > 1.0 and areas[0] <= areas[1] and 0 < ratios[0] <= ratios[1]

    def __call__(self, src, label):
        height, width = src.shape[:2]
        for _ in range(self.max_attempts if self.enabled else 0):
            window = _random_window(height, width, self.aspect_ratio_range, self.area_range, grow=True)
            if window is not None:
                x, y, w, h = window
                label = label.copy()
                label[:, 1:5] = (label[:, 1:5] * [width, height, width, height] + [x, y, x, y]) / [w, h, w, h]
                return copyMakeBorder(src, y, h - y - height, x, w - x - width, values=list(self.pad_val)), label
        return src, label


def CreateMultiRandCropAugmenter(min_object_covered=0.1, aspect_ratio_range=(0.75, 1.33), area_range=(0.05, 1.0), min_eject_coverage=0.3,
                                 max_attempts=50, skip_prob=0):
    """One of several random crops; arguments may be lists, one entry per crop."""
    given = [min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts]
    count = max(len(value) for value in given if isinstance(value, list)) if any(isinstance(value, list) for value in given) else 1
    columns = [value * count if isinstance(value, list) and len(value) == 1 else value if isinstance(value, list) else [value] * count for value in given]
    if any(len(column) != count for column in columns):
        raise AssertionError("lists of arguments must have the same length")
    return DetRandomSelectAug([DetRandomCropAug(*values) for values in zip(*columns)], skip_prob)


def CreateDetAugmenter(data_shape, resize=0, rand_crop=0, rand_pad=0, rand_gray=0, rand_mirror=False, mean=None, std=None, brightness=0, contrast=0,
                       saturation=0, pca_noise=0, hue=0, inter_method=2, min_object_covered=0.1, aspect_ratio_range=(0.75, 1.33),
                       area_range=(0.05, 3.0), min_eject_coverage=0.3, max_attempts=50, pad_val=(127, 127, 127)):
    """The usual changes for training a detector."""
    made = [DetBorrowAug(ResizeAug(resize, inter_method))] if resize > 0 else []
    if rand_crop > 0:
        made.append(CreateMultiRandCropAugmenter(min_object_covered, aspect_ratio_range, (area_range[0], min(1.0, area_range[1])), min_eject_coverage,
                                                 max_attempts, skip_prob=1 - rand_crop))
    if rand_mirror:
        made.append(DetHorizontalFlipAug(0.5))
    if rand_pad > 0:  # after cropping, so that not too many pixels are cut
        made.append(DetRandomSelectAug([DetRandomPadAug(aspect_ratio_range, (1.0, area_range[1]), max_attempts, pad_val)], 1 - rand_pad))
    made += [DetBorrowAug(ForceResizeAug((data_shape[2], data_shape[1]), inter_method)), DetBorrowAug(CastAug())]
    if brightness or contrast or saturation:
        made.append(DetBorrowAug(ColorJitterAug(brightness, contrast, saturation)))
    made += [DetBorrowAug(kind(amount)) for kind, amount in ((HueJitterAug, hue), (LightingAug, pca_noise), (RandomGrayAug, rand_gray)) if amount > 0]
    mean, std = np.array([123.68, 116.28, 103.53]) if mean is True else mean, np.array([58.395, 57.12, 57.375]) if std is True else std
    if mean is not None or std is not None:
        made.append(DetBorrowAug(ColorNormalizeAug(None if mean is None else nd.array(mean), None if std is None else nd.array(std))))
    return made


class ImageDetIter(ImageIter):
    """Batches of images with boxes. A label in a file is: its header's length, an object's length, (more header), then the objects."""

    def __init__(self, batch_size, data_shape, path_imgrec=None, path_imglist=None, path_root=None, path_imgidx=None, shuffle=False, part_index=0,
                 num_parts=1, aug_list=None, imglist=None, data_name="data", label_name="label", last_batch_handle="pad", **kwargs):
        changes = CreateDetAugmenter(data_shape, **kwargs) if aug_list is None else aug_list
        super().__init__(batch_size, data_shape, 1, path_imgrec, path_imglist, path_root, path_imgidx, shuffle, part_index, num_parts, changes, imglist,
                         data_name, label_name, last_batch_handle=last_batch_handle)
        self.label_name = label_name
        self._show(self._largest_label())

    def _show(self, label_shape):
        self.label_shape = tuple(label_shape)
        self.provide_label = [DataDesc(self.label_name, (self.batch_size, *self.label_shape))]

    def _largest_label(self):
        shapes = [self._parse_label(label).shape for label, _ in self._items]
        return max(rows for rows, _ in shapes), max(width for _, width in shapes)

    def _parse_label(self, label):
        """The matrix of objects of a flat label."""
        raw = np.asarray(label.asnumpy() if isinstance(label, nd.NDArray) else label, np.float32).ravel()
        if raw.size < 7:
            raise RuntimeError(f"Label shape is invalid: {raw.shape}")
        header, width = int(raw[0]), int(raw[1])
        if width < 5 or (raw.size - header) % width:
            raise RuntimeError(f"Label shape {raw.shape} inconsistent with annotation width {width}.")
        objects = raw[header:].reshape(-1, width)
        valid = objects[(objects[:, 3] > objects[:, 1]) & (objects[:, 4] > objects[:, 2])]
        if not len(valid):
            raise RuntimeError("Encounter sample with no valid label.")
        return valid

    def augmentation_transform(self, data, label):
        """Image and label after all changes."""
        for change in self.auglist:
            data, label = change(data, label)
        return data, label

    def check_label_shape(self, label_shape):
        """Raises where the labels do not fit into this shape."""
        if len(label_shape) != 2:
            raise ValueError("label_shape should have length 2")
        if label_shape[0] < self.label_shape[0] or label_shape[1] != self.label_shape[1]:
            raise ValueError(f"label_shape {tuple(label_shape)} does not hold the labels, which need {self.label_shape}")

    def reshape(self, data_shape=None, label_shape=None):
        """Another size of images, or room for more objects."""
        if data_shape is not None:
            self.check_data_shape(data_shape)
            self.provide_data = [DataDesc(self.provide_data[0].name, (self.batch_size, *data_shape))]
            self.data_shape = tuple(data_shape)
        if label_shape is not None:
            self.check_label_shape(label_shape)
            self._show(label_shape)

    def sync_label_shape(self, it, verbose=False):
        """Gives this iterator and another one the same room for objects."""
        if not isinstance(it, ImageDetIter):
            raise AssertionError("Synchronize with invalid iterator.")
        rows, width = max(self.label_shape[0], it.label_shape[0]), max(self.label_shape[1], it.label_shape[1])
        for each in (self, it):
            each._show((rows, width))
        return it

    def _sample(self):
        label, data = self.next_sample()
        picture, objects = self.augmentation_transform(self.imdecode(data), self._parse_label(label))
        return objects, self.postprocess_data(picture).astype(self.dtype)

    def _labels(self, labels):
        filled = np.full((len(labels), *self.label_shape), -1, np.float32)  # rows without an object are -1
        for room, objects in zip(filled, labels):
            rows = min(len(objects), len(room))
            room[:rows, :objects.shape[1]] = objects[:rows]
        return nd.array(filled)

    def draw_next(self, color=None, thickness=2, mean=None, std=None, clip=True, waitKey=None, window_name="draw_next", id2labels=None):
        """Images with frames around their objects, as NumPy arrays; there is no window to show them in."""
        if waitKey is not None:
            raise NotImplementedError("draw_next: images are not shown in a window; leave waitKey out and show what it gives")
        for label, data in self._queue[self.cur:]:
            data = data if isinstance(data, bytes) else self.read_image(data)
            picture, objects = self.augmentation_transform(self.imdecode(data), self._parse_label(label))
            pixels = picture.asnumpy()
            pixels = pixels if std is None else pixels * (np.array([58.395, 57.12, 57.375]) if std is True else np.asarray(std))
            pixels = pixels if mean is None else pixels + (np.array([123.68, 116.28, 103.53]) if mean is True else np.asarray(mean))
            pixels = np.clip(pixels, 0, 255) if clip else pixels
            yield _framed(pixels, objects[:, 1:5], (255, 0, 0) if color is None else color, thickness)


def _framed(pixels, boxes, color, thickness):
    height, width = pixels.shape[:2]
    for left, top, right, bottom in (boxes * [width, height, width, height]).astype(int).tolist():
        for i in range(thickness):
            rows, columns = slice(max(0, top + i), max(0, bottom - i)), slice(max(0, left + i), max(0, right - i))
            for place in ((min(height - 1, top + i), columns), (max(0, min(height, bottom) - 1 - i), columns),
                          (rows, min(width - 1, left + i)), (rows, max(0, min(width, right) - 1 - i))):
                pixels[place] = color
    return pixels
