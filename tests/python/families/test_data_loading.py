"""Batches of loaders, as MXNet documents them."""
import numpy as np
import pytest

import gluino as mx
from gluino.gluon import data


def test_batches_keep_the_dtype_of_numpy_arrays():
    for dtype in ("float64", "float32", "float16", "int32", "int64", "uint8"):
        for workers in (0, 2):
            batch = next(iter(data.DataLoader([(np.ones(2, dtype), np.ones(3, "uint8"))] * 4, 2, num_workers=workers)))
            assert batch[0].dtype == np.dtype(dtype) and batch[1].dtype == np.uint8 and batch[0].shape == (2, 2)
    assert next(iter(data.DataLoader([1.5, 2.5], 2))).dtype == np.float64
    assert isinstance(next(iter(data.DataLoader([mx.nd.ones(2)] * 2, 2))), mx.nd.NDArray)


def pictures(count, folder):
    cv2 = pytest.importorskip("cv2")
    cv2.imwrite(str(folder / "a.jpg"), np.zeros((32, 32, 3), "uint8"))
    return [[i, "a.jpg"] for i in range(count)]


def boxes(count, folder):
    return [[2, 5, i, 0.1, 0.1, 0.9, 0.9, name] for i, name in pictures(count, folder)]


@pytest.mark.parametrize("kind, items", ((mx.image.ImageIter, pictures), (mx.image.ImageDetIter, boxes)))
@pytest.mark.parametrize("shuffle", (False, True))
def test_where_an_iterator_of_images_is(kind, items, shuffle, tmp_path):
    it = kind(2, (3, 32, 32), imglist=items(5, tmp_path), path_root=str(tmp_path), shuffle=shuffle, last_batch_handle="discard")
    for _ in range(2):
        assert it.cur == 0 and it.num_image == 5 and sorted(it.seq) == [0, 1, 2, 3, 4]
        labels = []
        for k in (2, 4):
            batch = it.next()
            assert it.cur == k
            labels += (batch.label[0] if kind is mx.image.ImageIter else batch.label[0][:, 0, 0]).asnumpy().tolist()
        assert labels == it.seq[:4]
        with pytest.raises(StopIteration):
            it.next()
        it.reset()
    it.next_sample()
    assert it.cur == 1
    it.seq = [3, 1]  # a part of them
    it.reset()
    label = it.next().label[0]
    assert (label if kind is mx.image.ImageIter else label[:, 0, 0]).asnumpy().tolist() in ([3, 1], [1, 3])


def test_what_iterators_over_arrays_show():
    values = np.arange(10, dtype="float32").reshape(5, 2)
    it = mx.io.NDArrayIter({"a": values}, np.arange(5), 2, shuffle=True)
    assert [name for name, _ in it.data] == ["a"] and it.data[0][1].asnumpy().tolist() == values.tolist()
    assert it.label[0][0] == "softmax_label" and it.num_source == 2 and [x.shape for x in it.data_list] == [(5, 2), (5,)]
    assert next(it).label[0].asnumpy().tolist() == it.idx[:2].tolist()
    for layout in ("NT", "TN"):
        it = mx.rnn.BucketSentenceIter([[1, 2, 3], [1, 2], [2, 1, 3, 4]], 1, buckets=[3, 4, 6], invalid_label=0, layout=layout)
        assert [x.shape for x in it.nddata] == [(2, 3), (1, 4), (0, 6)] == [x.shape for x in it.ndlabel]
        for batch in it:
            data, label = (x.asnumpy() if layout == "NT" else x.asnumpy().T for x in (batch.data[0], batch.label[0]))
            assert data[0, 1:].tolist() == label[0, :-1].tolist() and label[0, -1] == 0
