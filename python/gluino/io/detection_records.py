"""Batches of images with boxes of a RecordIO file, by the options of MXNet's iterator of the same name."""
import random

import numpy as np

from .. import ndarray as nd
from .io import DataDesc
from .readers import ImageRecordIter, MXDataIter, record_images

__all__ = ["ImageDetRecordIter"]


def _of_each(value, count, name):
    """The values of an option for each sampler: one for all, or as many as there are."""
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    if len(values) not in (1, count):
        raise ValueError(f"{name} has {len(values)} values for {count} crop samplers")
    return values * count if len(values) == 1 else values


def _clipped(boxes, x, y, w, h):
    return np.stack([boxes[:, 0].clip(x, x + w), boxes[:, 1].clip(y, y + h), boxes[:, 2].clip(x, x + w), boxes[:, 3].clip(y, y + h)], axis=1)


def _areas(boxes):
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


class _Crop:
    """One sampler: a part of the image in which an object is seen within bounds."""

    _BOUNDS = ("crop_scales", "crop_aspect_ratios", "crop_overlaps", "crop_sample_coverages", "crop_object_coverages")

    def __init__(self, bounds, trials, emit_mode, emit_overlap_thresh):
        self.bounds, self.trials, self.emit_mode, self.least_overlap = bounds, trials, emit_mode, emit_overlap_thresh

    def window(self, label, height, width):
        """(x, y, w, h) as parts of the image, and what becomes of the objects; None where no trial succeeds."""
        for _ in range(self.trials):
            scale = random.uniform(*self.bounds["crop_scales"])
            shape = width / height
            low, high = self.bounds["crop_aspect_ratios"]
            ratio = random.uniform(max(low / shape, scale * scale), min(high / shape, 1 / (scale * scale))) if scale else 0
            w, h = scale * ratio ** 0.5, scale / ratio ** 0.5 if ratio else 0
            if not 0 < w <= 1 or not 0 < h <= 1:
                continue
            x, y = random.uniform(0, 1 - w), random.uniform(0, 1 - h)
            if self._sees(label[:, 1:5], x, y, w, h):
                kept = self._kept(label, x, y, w, h)
                if len(kept):
                    return (x, y, w, h), kept
        return None

    def _sees(self, boxes, x, y, w, h):
        seen, whole = _areas(_clipped(boxes, x, y, w, h)), _areas(boxes)
        measures = {"crop_overlaps": seen / (whole + w * h - seen), "crop_sample_coverages": seen / (w * h),
                    "crop_object_coverages": seen / np.maximum(whole, 1e-12)}
        free = all(self.bounds[name] == (0, 1) for name in measures)
        within = [(self.bounds[name][0] <= value) & (value <= self.bounds[name][1]) for name, value in measures.items() if self.bounds[name] != (0, 1)]
        return free or bool(np.logical_and.reduce(within).any())

    def _kept(self, label, x, y, w, h):
        boxes = label[:, 1:5]
        if self.emit_mode == "center":
            middle = (boxes[:, :2] + boxes[:, 2:]) / 2
            stays = (middle >= [x, y]).all(axis=1) & (middle <= [x + w, y + h]).all(axis=1)
        else:
            stays = _areas(_clipped(boxes, x, y, w, h)) / np.maximum(_areas(boxes), 1e-12) > self.least_overlap
        kept = label[stays].copy()
        kept[:, 1:5] = (_clipped(kept[:, 1:5], x, y, w, h) - [x, y, x, y]) / [w, h, w, h]
        return kept


class _Changes:
    """What happens to an image and its boxes, by MXNet's options."""

    def __init__(self, data_shape, resize=-1, rand_crop_prob=0, num_crop_sampler=1, crop_emit_mode="center", emit_overlap_thresh=0.3, max_crop_trials=25,
                 rand_pad_prob=0, max_pad_scale=1, max_random_hue=0, random_hue_prob=0, max_random_saturation=0, random_saturation_prob=0,
                 max_random_illumination=0, random_illumination_prob=0, max_random_contrast=0, random_contrast_prob=0, rand_mirror_prob=0,
                 fill_value=127, inter_method=1, resize_mode="force", **bounds):
        if crop_emit_mode not in ("center", "overlap") or resize_mode not in ("force", "shrink", "fit"):
            raise ValueError(f"crop_emit_mode is 'center' or 'overlap', resize_mode 'force', 'shrink' or 'fit'; not {crop_emit_mode!r} and {resize_mode!r}")
        lists = {}
        for name in _Crop._BOUNDS:
            least = 1.0 if name == "crop_aspect_ratios" else 0.0
            lists[name] = list(zip(*(_of_each(bounds.pop(f"{end}_{name}", default), num_crop_sampler, f"{end}_{name}")
                                     for end, default in (("min", least), ("max", 1.0)))))
        if bounds:
            raise TypeError(f"ImageDetRecordIter: there is no option {next(iter(bounds))!r}")
        trials = _of_each(max_crop_trials, num_crop_sampler, "max_crop_trials")
        self.crops = [_Crop({name: tuple(values[i]) for name, values in lists.items()}, trials[i], crop_emit_mode, emit_overlap_thresh)
                      for i in range(num_crop_sampler)]
        self.size, self.resize, self.resize_mode, self.inter_method = (data_shape[2], data_shape[1]), resize, resize_mode, inter_method
        self.crop_prob, self.pad_prob, self.pad_scale, self.mirror_prob, self.fill_value = (rand_crop_prob, rand_pad_prob, max_pad_scale, rand_mirror_prob,
                                                                                             fill_value)
        self.colours = {"hue": (max_random_hue, random_hue_prob), "saturation": (max_random_saturation, random_saturation_prob),
                        "lightness": (max_random_illumination, random_illumination_prob)}
        self.contrast = max_random_contrast, random_contrast_prob

    def __call__(self, picture, label):
        from .. import image
        if self.resize > 0:
            picture = image.resize_short(picture, self.resize, self.inter_method)
        picture = self._coloured(picture)
        if random.random() < self.mirror_prob:
            picture, label = picture[:, ::-1], label.copy()
            label[:, [1, 3]] = 1 - label[:, [3, 1]]
        if random.random() < self.pad_prob and self.pad_scale > 1:
            picture, label = self._padded(picture, label)
        if random.random() < self.crop_prob and self.crops:
            picture, label = self._cropped(picture, label)
        return self._resized(picture), label

    def _coloured(self, picture):
        moves = {name: random.uniform(-most, most) if random.random() < chance else 0 for name, (most, chance) in self.colours.items() if most > 0}
        if any(moves.values()):
            picture = nd.image.adjust_hls(picture, **moves)
        most, chance = self.contrast
        if most > 0 and random.random() < chance:
            picture = (picture.astype("float32") * (1 + random.uniform(-most, most))).clip(0, 255).astype(picture.dtype)
        return picture

    def _padded(self, picture, label):
        from .. import image
        scale = random.uniform(1, self.pad_scale)
        height, width = picture.shape[:2]
        high, wide = int(height * scale), int(width * scale)
        x, y = random.randint(0, wide - width), random.randint(0, high - height)
        label = label.copy()
        label[:, 1:5] = (label[:, 1:5] * [width, height, width, height] + [x, y, x, y]) / [wide, high, wide, high]
        return image.copyMakeBorder(picture, y, high - y - height, x, wide - x - width, value=self.fill_value), label

    def _cropped(self, picture, label):
        from .. import image
        height, width = picture.shape[:2]
        for crop in random.sample(self.crops, len(self.crops)):
            found = crop.window(label, height, width)
            if found:
                (x, y, w, h), label = found
                left, top = int(x * width), int(y * height)
                return image.fixed_crop(picture, left, top, max(1, min(int(w * width), width - left)), max(1, min(int(h * height), height - top))), label
        return picture, label

    def _resized(self, picture):
        from .. import image
        height, width = picture.shape[:2]
        scale = min(self.size[0] / width, self.size[1] / height)
        if self.resize_mode == "shrink":
            scale = min(scale, 1.0)
        size = self.size if self.resize_mode == "force" else (max(1, int(width * scale)), max(1, int(height * scale)))
        return image.imresize(picture, *size, interp=self.inter_method)


class ImageDetRecordIter(MXDataIter):
    """Batches of images with boxes. A row of labels is: channels, height and width of the image, length of what follows; the label as the file
    has it (length of its header, length of an object, more header, objects) with the boxes as they are now; then label_pad_value."""

    def __init__(self, path_imgrec, data_shape, batch_size, path_imglist=None, label_width=-1, label_pad_width=0, label_pad_value=-1.0, shuffle=False,
                 mean_r=0, mean_g=0, mean_b=0, std_r=1, std_g=1, std_b=1, scale=1, mean_img=None, num_parts=1, part_index=0, round_batch=True,
                 data_name="data", label_name="label", dtype="float32", preprocess_threads=4, prefetch_buffer=4, verbose=True, seed=0,
                 shuffle_chunk_size=0, shuffle_chunk_seed=0, **options):
        from .. import image
        super().__init__(batch_size)
        normal = ImageRecordIter._normalisation(mean_img, np.array([mean_r, mean_g, mean_b], np.float32),
                                                np.array([std_r, std_g, std_b], np.float32) / scale, data_shape[0])
        self._images = _boxed_images(record_images(image.ImageIter))(
            batch_size, data_shape, 1, path_imgrec, shuffle=shuffle, aug_list=normal, num_parts=num_parts, part_index=part_index, data_name=data_name,
            label_name=label_name, round_batch=round_batch, labels=path_imglist, dtype=dtype, changes=_Changes(data_shape, **options),
            widths=(label_width, label_pad_width, label_pad_value))
        self.provide_data, self.provide_label = self._images.provide_data, self._images.provide_label

    def reset(self):
        self._images.reset()

    def next(self):
        return self._images.next()


def _boxed_images(base):
    class BoxedImages(base):
        def __init__(self, *args, changes, widths, label_name, **kwargs):
            self._changes, (self._width, self._room, self._filling) = changes, widths
            super().__init__(*args, label_name=label_name, **kwargs)
            sizes = [np.size(label) for label, _ in self._items]
            if self._width > 0 and any(size != self._width for size in sizes):
                raise ValueError(f"label_width is {self._width}, but there are labels of {sorted(set(sizes))} numbers")
            if 0 < self._room < max(sizes):
                raise ValueError(f"label_pad_width: {self._room} is smaller than the longest label, which has {max(sizes)} numbers")
            self._room = max(self._room, *sizes)
            self.provide_label = [DataDesc(label_name, (self.batch_size, self._room + 4))]

        def _sample(self):
            raw, data = self.next_sample()
            raw = np.asarray(raw, np.float32).ravel()
            header, length = (int(x) for x in raw[:2]) if raw.size > 1 else (0, 0)
            if header < 2 or length < 5 or (raw.size - header) % length:
                raise ValueError(f"a label of {raw.size} numbers is not: length of its header, length of an object (5 or more), objects")
            picture, objects = self._changes(self.imdecode(data), raw[header:].reshape(-1, length))
            height, width, channels = picture.shape
            flat = np.concatenate([raw[:header], objects.ravel()])
            row = np.full(self._room + 4, self._filling, np.float32)
            row[:4] = channels, height, width, flat.size
            row[4:4 + flat.size] = flat
            return row, self._filled(self.augmentation_transform(picture.astype("float32")), height, width)

        def _filled(self, picture, height, width):
            """In the upper left corner of an image of the size of all others."""
            room = nd.zeros((self.data_shape[1], self.data_shape[2], picture.shape[2]))
            room[:height, :width] = picture
            return self.postprocess_data(room).astype(self.dtype)

        def _labels(self, labels):
            return nd.array(np.stack(labels))

    return BoxedImages
