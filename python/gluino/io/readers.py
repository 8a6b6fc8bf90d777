"""Iterators over the batches of files. What rounds do with a batch that is not full is what MXNet documents."""
import os

import numpy as np

from .. import _core, ndarray as nd
from ..base import FileError
from .image_changes import Affine, OtherContrast, OtherHls, SquareCrop
from .io import DataDesc, DataIter, NDArrayIter

__all__ = ["MXDataIter", "CSVIter", "LibSVMIter", "MNISTIter", "ImageRecordIter", "ImageRecordUInt8Iter", "ImageRecordInt8Iter", "ImageRecordIter_v1",
           "ImageRecordUInt8Iter_v1", "read_idx"]


class MXDataIter(DataIter):
    """The base of iterators that read files."""


class _Rows(MXDataIter, NDArrayIter):
    """Rows of a file. With round_batch the last batch is filled with the first rows, and the next round begins behind those; without it the
    last batch keeps rows of the one before, and the next round begins with the first row. In both cases batch.pad counts them."""

    def __init__(self, data, label, batch_size, round_batch, data_name="data", label_name="softmax_label", num_parts=1, part_index=0, **kwargs):
        part = slice(len(label) * part_index // num_parts, len(label) * (part_index + 1) // num_parts)
        self._round, self._begin = round_batch, 0
        # As arrays of the package they keep their dtypes.
        data, label = (x[part] if isinstance(x, nd.sparse.CSRNDArray) else nd.array(x[part], dtype=x.dtype) for x in (data, label))
        super().__init__(data, label, batch_size, data_name=data_name, label_name=label_name)

    def reset(self):
        super().reset()
        self._queue, self._begin = self._order[self._begin:], 0

    def iter_next(self):
        found = super().iter_next()
        if found and self._round:
            self._begin = self.getpad() % self.num_data
        return found

    def _rows(self):
        rows, pad = self._queue[max(self.cursor, 0):self.cursor + self.batch_size], self.getpad()
        before = self._queue[max(self.cursor - pad, 0):self.cursor]
        filling = self._order if self._round or not len(before) else before
        return np.concatenate([rows, np.resize(filling, pad)]).astype(int)


class CSVIter(_Rows):
    """Batches of rows of a table: a file, or all files of a folder."""

    def __init__(self, data_csv, data_shape, label_csv=None, label_shape=(1,), batch_size=1, round_batch=True, dtype="float32", **kwargs):
        data = self._read(data_csv).reshape(-1, *data_shape).astype(dtype)
        label = np.zeros((len(data), 1)) if label_csv is None else self._read(label_csv).reshape(-1, *label_shape)
        if len(label) != len(data):
            raise FileError(f"{label_csv} has {len(label)} rows, {data_csv} has {len(data)}")
        super().__init__(data, label.astype(dtype), batch_size, round_batch, **kwargs)

    @staticmethod
    def _read(path):
        path = str(path)
        files = [os.path.join(path, name) for name in sorted(os.listdir(path))] if os.path.isdir(path) else [path]
        return np.concatenate([_core.read_csv(file).asnumpy() for file in files])


def _read_libsvm(path, width):
    """(labels, matrix) of lines "label index:value ..."; several labels are joined by commas."""
    labels, columns, values, ends = [], [], [], [0]
    with open(path, encoding="utf-8") as file:
        for line in filter(str.strip, file):
            first, *pairs = line.split()
            if ":" in first:
                first, pairs = "0", [first, *pairs]
            labels.append([float(label) for label in first.split(",")])
            row = {int(index): float(value) for index, _, value in (pair.partition(":") for pair in pairs)}
            if row and not 0 <= min(row) <= max(row) < width:
                raise FileError(f"{path}: column {max(row)} of rows with {width}")
            columns.extend(sorted(row))
            values.extend(row[column] for column in sorted(row))
            ends.append(len(columns))
    matrix = nd.sparse.csr_matrix((np.array(values, np.float32), np.array(columns, np.int64), np.array(ends)), shape=(len(labels), width))
    return np.array(labels, np.float32), matrix


class LibSVMIter(_Rows):
    """Batches of csr rows of a file in LibSVM's form, indices from 0 on; labels are its own or those of another file."""

    def __init__(self, data_libsvm, data_shape, label_libsvm=None, label_shape=(1,), batch_size=1, round_batch=True, **kwargs):
        labels, matrix = _read_libsvm(data_libsvm, int(np.prod(data_shape)))
        if label_libsvm is not None:
            labels = _read_libsvm(label_libsvm, int(np.prod(label_shape)))[1].asnumpy()
        labels = labels.reshape(len(matrix), *([] if tuple(np.atleast_1d(label_shape)) == (1,) else np.atleast_1d(label_shape)))
        super().__init__(matrix, labels, batch_size, round_batch, **kwargs)


def read_idx(path):
    """The array of an IDX file, gzipped or not, as MNIST has it."""
    return _core.read_idx(str(path)).asnumpy()


class MNISTIter(MXDataIter, NDArrayIter):
    """Batches of MNIST."""

    def __init__(self, image="train-images-idx3-ubyte", label="train-labels-idx1-ubyte", batch_size=128, shuffle=True, flat=False, num_parts=1,
                 part_index=0, data_name="data", label_name="softmax_label", **kwargs):
        pixels, labels = read_idx(image), read_idx(label)
        part = slice(len(pixels) * part_index // num_parts, len(pixels) * (part_index + 1) // num_parts)
        pixels = pixels[part].astype(np.float32) / 255
        pixels = pixels.reshape(len(pixels), -1) if flat else pixels[:, None]
        super().__init__(pixels, labels[part].astype(np.float32), batch_size, shuffle, "discard", data_name, label_name)


class ImageRecordIter(MXDataIter):
    """Batches of the images of a RecordIO file, cut, mirrored and normalised on the way; rounds end as those of other files."""

    def __init__(self, path_imgrec, data_shape, batch_size, label_width=1, shuffle=False, resize=-1, rand_crop=False, rand_mirror=False,
                 mean_r=0, mean_g=0, mean_b=0, std_r=1, std_g=1, std_b=1, scale=1, data_name="data", label_name="softmax_label", round_batch=True,
                 num_parts=1, part_index=0, path_imglist=None, mirror=False, mean_img=None, pad=0, fill_value=255, random_resized_crop=False,
                 min_random_area=1.0, max_random_area=1.0, min_aspect_ratio=None, max_aspect_ratio=0.0, brightness=0, contrast=0, saturation=0,
                 pca_noise=0, inter_method=1, dtype="float32", max_rotate_angle=0, rotate=-1, max_shear_ratio=0, max_random_scale=1.0,
                 min_random_scale=1.0, max_img_size=1e10, min_img_size=0, max_crop_size=-1, min_crop_size=-1, random_h=0, random_s=0, random_l=0,
                 max_random_contrast=0, max_random_illumination=0, aug_seq="aug_default", **kwargs):
        from .. import image
        super().__init__(batch_size)
        if aug_seq != "aug_default":
            raise NotImplementedError(f"{type(self).__name__}: aug_seq={aug_seq!r} is not there; use gluon.data.vision.ImageRecordDataset with a transform "
                                      "of your own")
        if random_resized_crop and (rand_crop or (max_random_scale, min_random_scale, max_crop_size, min_crop_size) != (1, 1, -1, -1)):
            raise ValueError(f"{type(self).__name__}: random_resized_crop does not go with rand_crop, random scales and crop sizes")
        ratios = ((1 - max_aspect_ratio, 1 + max_aspect_ratio) if min_aspect_ratio is None else (min_aspect_ratio, max_aspect_ratio))
        size = data_shape[2], data_shape[1]
        changes = [image.ResizeAug(resize, inter_method)] if resize > 0 else []
        affine = Affine(max_rotate_angle, rotate, max_shear_ratio, (min_random_scale, max_random_scale), (1.0, 1.0) if random_resized_crop else ratios,
                        max_img_size, min_img_size, fill_value)
        if affine.does_something:
            changes.append(affine)
        if pad:
            changes.append(lambda picture: image.copyMakeBorder(picture, pad, pad, pad, pad, value=fill_value))
        if random_resized_crop:
            changes.append(image.RandomSizedCropAug(size, (min_random_area, max_random_area), ratios, inter_method))
        if max(max_crop_size, min_crop_size) > 0:
            changes.append(SquareCrop(min_crop_size if min_crop_size > 0 else max_crop_size, max_crop_size, bool(rand_crop), size, inter_method))
        if random_h or random_s or random_l:
            changes.append(OtherHls(random_h, random_s, random_l))
        changes += image.CreateAugmenter(data_shape, 0, bool(rand_crop), False, bool(rand_mirror), brightness=brightness, contrast=contrast,
                                         saturation=saturation, pca_noise=pca_noise, inter_method=inter_method)
        if mirror:
            changes.append(image.HorizontalFlipAug(1.0))
        changes += self._normalisation(mean_img, np.array([mean_r, mean_g, mean_b], np.float32), np.array([std_r, std_g, std_b], np.float32) / scale,
                                       data_shape[0])
        if max_random_contrast or max_random_illumination:
            changes.append(OtherContrast(max_random_contrast, max_random_illumination))
        self._images = record_images(image.ImageIter)(
            batch_size, data_shape, label_width, path_imgrec, shuffle=shuffle, aug_list=changes, num_parts=num_parts, part_index=part_index,
            data_name=data_name, label_name=label_name, round_batch=round_batch, labels=path_imglist, dtype=dtype)
        self.provide_data, self.provide_label = self._images.provide_data, self._images.provide_label

    @staticmethod
    def _normalisation(mean_img, mean, std, channels):
        from .. import image
        if mean_img:
            if not os.path.exists(mean_img):
                raise NotImplementedError(f"mean_img='{mean_img}': there is no such file, and means of images are not computed; give mean_r, mean_g, mean_b")
            found = nd.load(mean_img)
            mean = (found["mean_img"] if isinstance(found, dict) else found[0]).transpose((1, 2, 0))
        else:
            mean = nd.array(mean[:channels])
        return [image.ColorNormalizeAug(mean, nd.array(std[:channels]))] if mean.asnumpy().any() or (std != 1).any() else []

    def reset(self):
        self._images.reset()

    def next(self):
        return self._images.next()


def record_images(base):
    """ImageIter with the rounds of files, images of one channel, and labels of a list by the numbers of the records."""

    class RecordImages(base):
        def __init__(self, *args, round_batch, labels, **kwargs):
            self._round, self._begin, self._list = round_batch, 0, labels
            super().__init__(*args, **kwargs)

        def _read(self, path_imgrec, path_imglist, imglist):
            from .. import recordio
            labels = {}
            if self._list:
                with open(self._list, encoding="utf-8") as file:
                    lines = [line.strip().split("\t") for line in file if line.strip()]
                labels = {int(line[0]): np.array(line[1:-1], np.float32) for line in lines}
            reader = recordio.MXRecordIO(path_imgrec, "r")
            unpacked = [recordio.unpack(record) for record in iter(reader.read, None)]
            return [(labels.get(header.id, header.label), data) for header, data in unpacked if not labels or header.id in labels]

        def check_data_shape(self, data_shape):
            if len(data_shape) != 3 or data_shape[0] not in (1, 3):
                raise ValueError(f"data_shape is (channels, height, width) with 1 or 3 channels, not {tuple(data_shape)}")

        def imdecode(self, s):
            from .. import image
            return image.imdecode(s, flag=int(self.data_shape[0] == 3))

        def reset(self):
            begin, self._begin = self._begin, 0
            if begin:  # behind what filled the last batch, in the order of that moment
                self._queue, self.cur = [self._items[i] for i in self.seq[begin:]], 0
            else:
                super().reset()

        def next(self):
            rest = len(self._queue) - self.cur
            pad = self.batch_size - rest
            if rest <= 0 or pad <= 0:
                return super().next()
            if self._round:
                if self.shuffle:
                    np.random.shuffle(self.seq)
                filling = [self._items[self.seq[i % len(self.seq)]] for i in range(pad)]
                self._begin = pad % len(self.seq)
            else:
                before = self._queue[max(self.cur - pad, 0):self.cur] or self._queue
                filling = [before[i % len(before)] for i in range(pad)]
            self._queue = [*self._queue, *filling]
            batch = super().next()
            batch.pad = pad
            return batch

    return RecordImages


class ImageRecordUInt8Iter(ImageRecordIter):
    """Images as whole numbers from 0 to 255, not normalised."""

    _dtype, _least = "uint8", 0

    def __init__(self, path_imgrec, data_shape, batch_size, **kwargs):
        for name in ("mean_r", "mean_g", "mean_b", "std_r", "std_g", "std_b", "scale"):
            if name in kwargs:
                raise ValueError(f"{type(self).__name__}: whole numbers are not normalised; {name} belongs to ImageRecordIter")
        super().__init__(path_imgrec, data_shape, batch_size, **{**kwargs, "dtype": "float32"})
        self.provide_data = [DataDesc(d.name, d.shape, np.dtype(self._dtype), d.layout) for d in self.provide_data]

    def next(self):
        batch = super().next()
        batch.data = [(x + self._least).astype(self._dtype) for x in batch.data]
        return batch


class ImageRecordInt8Iter(ImageRecordUInt8Iter):
    """Images as whole numbers from -128 to 127."""

    _dtype, _least = "int8", -128


ImageRecordIter_v1, ImageRecordUInt8Iter_v1 = ImageRecordIter, ImageRecordUInt8Iter
