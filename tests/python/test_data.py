"""Images, records and the way from files to batches."""
import pathlib

import numpy as np
import pytest

import gluino as mx
from gluino import gluon, nd
from gluino.gluon.data.vision import transforms

RNG = np.random.RandomState(5)
IMAGE = RNG.randint(0, 255, (20, 24, 3)).astype("uint8")


def test_images_are_written_and_read():
    for ending in (".png", ".jpg"):
        pathlib.Path("x" + ending).write_bytes(mx.image.imencode(IMAGE[:, :, ::-1], img_fmt=ending))
        read = mx.image.imread("x" + ending)
        assert read.dtype == np.uint8 and read.shape == IMAGE.shape
    assert (mx.image.imread("x.png").asnumpy() == IMAGE).all()
    assert (mx.image.imread("x.png", to_rgb=False).asnumpy() == IMAGE[:, :, ::-1]).all()
    assert mx.image.imread("x.png", flag=0).shape == (20, 24, 1)
    with pytest.raises(OSError, match="neither a JPEG nor a PNG"):
        mx.image.imdecode(b"nothing")


@pytest.mark.parametrize("change, shape", [
    (transforms.Resize(10), (10, 10, 3)), (transforms.Resize((12, 14)), (14, 12, 3)), (transforms.CenterCrop(8), (8, 8, 3)),
    (transforms.RandomCrop(8, pad=2), (8, 8, 3)), (transforms.RandomResizedCrop((6, 8)), (8, 6, 3)), (transforms.CropResize(1, 2, 10, 12, 5), (5, 5, 3)),
    (transforms.RandomFlipLeftRight(), (20, 24, 3)), (transforms.RandomFlipTopBottom(), (20, 24, 3)), (transforms.RandomBrightness(0.1), (20, 24, 3)),
    (transforms.RandomContrast(0.1), (20, 24, 3)), (transforms.RandomSaturation(0.1), (20, 24, 3)), (transforms.RandomHue(0.1), (20, 24, 3)),
    (transforms.RandomLighting(0.1), (20, 24, 3)), (transforms.RandomGray(1.0), (20, 24, 3)), (transforms.RandomColorJitter(0.1, 0.1, 0.1, 0.1), (20, 24, 3)),
    (transforms.RandomApply([transforms.Resize(10)], p=1.0), (10, 10, 3)),
    (transforms.Compose([transforms.ToTensor(), transforms.Normalize(0.5, 0.2), transforms.RandomRotation((-10, 10))]), (3, 20, 24)),
])
def test_transforms(change, shape):
    assert change(nd.array(IMAGE, dtype="uint8")).shape == shape


def test_changes_of_colours_keep_what_they_should():
    x = nd.array(IMAGE).astype("float32")
    gray = transforms.RandomGray(1.0)(x).asnumpy()
    assert np.allclose(gray[:, :, 0], gray[:, :, 2]) and np.allclose(gray[:, :, 0], IMAGE @ [0.299, 0.587, 0.114], rtol=1e-4)
    assert np.allclose(transforms.RandomHue(0.0)(x).asnumpy(), IMAGE, atol=1.0), "no turn of the colours"
    hue = transforms.RandomHue(0.5)(x).asnumpy()
    assert np.allclose(hue.max(axis=2) + hue.min(axis=2), IMAGE.max(axis=2) * 1.0 + IMAGE.min(axis=2), atol=1.0), "the lightness stays"
    bright = nd.array(np.full((2, 2, 3), 250), dtype="uint8")
    for change in (transforms.RandomBrightness(0.5), transforms.RandomContrast(0.5), transforms.RandomSaturation(0.5), transforms.RandomHue(0.5),
                   transforms.RandomLighting(0.1), transforms.RandomColorJitter(0.5, 0.5, 0.5, 0.5), transforms.RandomFlipLeftRight()):
        change.hybridize()
        for _ in range(20):
            out = change(bright)
            assert out.dtype == np.uint8 and out.asnumpy().min() >= 60, "colours do not wrap around"
    rows = nd.arange(12).reshape((2, 2, 3))
    flips = [int(transforms.RandomFlipTopBottom(0.25)(rows)[0, 0, 0].asscalar() != 0) for _ in range(400)]
    assert 60 < sum(flips) < 140


def test_rotation():
    square = nd.arange(18).reshape((2, 3, 3))
    assert np.allclose(transforms.Rotate(90)(square).asnumpy(), np.rot90(square.asnumpy(), axes=(1, 2)), atol=1e-4)
    wide = nd.random.uniform(shape=(1, 8, 12))
    assert np.allclose(mx.image.imrotate(wide, 180).asnumpy(), wide.asnumpy()[:, ::-1, ::-1], atol=1e-4)
    white = nd.ones((4, 1, 16, 16))
    turned = mx.image.imrotate(white, nd.array([0, 10, 20, 45]), zoom_in=True)
    assert np.allclose(turned.asnumpy(), 1, atol=1e-3), "zoomed in, no corner is empty"
    assert mx.image.imrotate(white, 45, zoom_out=True).asnumpy()[0, 0, 0, 0] == 0
    with pytest.raises(ValueError):
        transforms.RandomRotation((10, -10))


@pytest.fixture
def records():
    """A RecordIO file of 7 images with labels 0, 1, 2, 0, ..."""
    writer = mx.recordio.MXIndexedRecordIO("images.idx", "images.rec", "w")
    for i in range(7):
        pixels = np.full((20, 24, 3), 10 * i, "uint8")
        writer.write_idx(i, mx.recordio.pack_img(mx.recordio.IRHeader(0, float(i % 3), i, 0), pixels, img_fmt=".png"))
    writer.close()
    return "images.rec"


def test_batches_of_records(records):
    batches = mx.io.ImageRecordIter(path_imgrec=records, data_shape=(3, 16, 16), batch_size=3, mean_r=10, mean_g=10, mean_b=10, std_r=2, std_g=2, std_b=2)
    for _ in range(2):
        seen = list(batches)
        assert [b.data[0].shape for b in seen] == [(3, 3, 16, 16)] * 3 and [b.pad for b in seen] == [0, 0, 2]
        assert seen[0].data[0].asnumpy()[:, 0, 0, 0].tolist() == [-5, 0, 5] and seen[0].label[0].asnumpy().tolist() == [0, 1, 2]
        batches.reset()
    assert batches.provide_data[0].shape == (3, 3, 16, 16) and batches.provide_label[0].name == "softmax_label"
    halves = [list(mx.io.ImageRecordIter(path_imgrec=records, data_shape=(3, 16, 16), batch_size=1, num_parts=2, part_index=i)) for i in (0, 1)]
    assert [len(half) for half in halves] == [3, 4]
    assert len(list(mx.io.ImageRecordIter(path_imgrec=records, data_shape=(3, 16, 16), batch_size=3, round_batch=False))) == 2
    augmented = mx.image.ImageIter(2, (3, 8, 8), path_imgrec=records, shuffle=True, resize=12, rand_crop=True, rand_resize=True, rand_mirror=True, mean=True,
                                   std=True, brightness=0.1, contrast=0.1, saturation=0.1, hue=0.1, pca_noise=0.1, rand_gray=0.2)
    assert sum(b.data[0].shape[0] - b.pad for b in augmented) == 7
    dataset = gluon.data.vision.ImageRecordDataset(records)
    assert len(dataset) == 7 and dataset[2][0].shape == (20, 24, 3) and dataset[2][1] == 2


def test_batches_of_listed_files():
    for i in range(3):
        pathlib.Path(f"{i}.png").write_bytes(mx.image.imencode(IMAGE, img_fmt=".png"))
    pathlib.Path("list.lst").write_text("".join(f"{i}\t{i}\t{2 * i}\t{i}.png\n" for i in range(3)))
    batch = next(mx.image.ImageIter(3, (3, 20, 24), label_width=2, path_imglist="list.lst", path_root="."))
    assert batch.label[0].asnumpy().tolist() == [[0, 0], [1, 2], [2, 4]] and batch.data[0].shape == (3, 3, 20, 24)
    assert next(mx.image.ImageIter(2, (3, 20, 24), imglist=[(1, "0.png"), (0, "1.png")], path_root=".")).label[0].asnumpy().tolist() == [1, 0]
    with pytest.raises(ValueError, match="imglist"):
        mx.image.ImageIter(2, (3, 20, 24))


def test_borders():
    image = nd.array(IMAGE, dtype="uint8")
    assert (mx.image.copyMakeBorder(image, 1, 2, 3, 4, values=[1, 2, 3]).asnumpy()[0, 0] == [1, 2, 3]).all()
    assert (mx.image.copyMakeBorder(image, 1, 2, 3, 4, type=1).asnumpy()[0, 0] == IMAGE[0, 0]).all()
    assert mx.image.copyMakeBorder(image, 1, 2, 3, 4).shape == (23, 31, 3)
