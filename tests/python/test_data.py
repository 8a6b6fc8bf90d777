"""Images, records and the way from files to batches."""
import os
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
    seen = list(batches)
    assert [b.data[0].shape for b in seen] == [(3, 3, 16, 16)] * 3 and [b.pad for b in seen] == [0, 0, 2]
    assert seen[0].data[0].asnumpy()[:, 0, 0, 0].tolist() == [-5, 0, 5] and seen[0].label[0].asnumpy().tolist() == [0, 1, 2]
    assert batches.provide_data[0].shape == (3, 3, 16, 16) and batches.provide_label[0].name == "softmax_label"
    halves = [list(mx.io.ImageRecordIter(path_imgrec=records, data_shape=(3, 16, 16), batch_size=1, num_parts=2, part_index=i)) for i in (0, 1)]
    assert [len(half) for half in halves] == [3, 4]
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


def rounds(batches, count):
    """First elements of rows and the pad of each batch, round by round."""
    seen = []
    for _ in range(count):
        seen.append([([int(v) for v in b.data[0].asnumpy().reshape(len(b.data[0].asnumpy()), -1)[:, 0]], b.pad) for b in batches])
        batches.reset()
    return seen


def file_iterators(records):
    rows = np.stack([np.full(3, 10 * i) for i in range(7)])
    np.savetxt("rows.csv", rows, delimiter=",")
    np.savetxt("labels.csv", np.arange(7) % 3, delimiter=",")
    with open("rows.libsvm", "w") as file:
        file.writelines(f"{i % 3} 0:{10 * i} 2:1\n" for i in range(7))
    return {"csv": lambda **options: mx.io.CSVIter(data_csv="rows.csv", data_shape=(3,), label_csv="labels.csv", **options),
            "libsvm": lambda **options: mx.io.LibSVMIter("rows.libsvm", (3,), **options),
            "records": lambda **options: mx.io.ImageRecordIter(records, (3, 16, 16), **options)}


@pytest.mark.parametrize("kind", ("csv", "libsvm", "records"))
def test_rounds_of_files(records, kind):
    make = file_iterators(records)[kind]
    full = [([0, 10, 20], 0), ([30, 40, 50], 0)]
    assert rounds(make(batch_size=3, round_batch=False), 2) == [[*full, ([60, 40, 50], 2)]] * 2, "no row is lost, and each round begins with the first"
    assert rounds(make(batch_size=3), 3) == [[*full, ([60, 0, 10], 2)], [([20, 30, 40], 0), ([50, 60, 0], 1)], [([10, 20, 30], 0), ([40, 50, 60], 0)]]
    assert [rounds(make(batch_size=2, round_batch=False, num_parts=2, part_index=i), 1)[0] for i in (0, 1)] == \
        [[([0, 10], 0), ([20, 10], 1)], [([30, 40], 0), ([50, 60], 0)]]
    named = make(batch_size=7, data_name="x", label_name="y")
    assert named.provide_data[0].name == "x" and named.provide_label[0].name == "y" and make(batch_size=7).provide_label[0].name == "softmax_label"
    assert next(named).label[0].asnumpy().ravel().tolist() == [0, 1, 2, 0, 1, 2, 0] and isinstance(named, mx.io.MXDataIter)


def test_tables_of_whole_numbers_in_a_folder():
    os.mkdir("parts")
    for i in (0, 1):
        np.savetxt(f"parts/{i}.csv", np.arange(4).reshape(2, 2) + 4 * i, fmt="%d", delimiter=",")
    batch = next(mx.io.CSVIter(data_csv="parts", data_shape=(2,), batch_size=4, dtype="int64"))
    assert batch.data[0].dtype == np.int64 and batch.data[0].asnumpy().ravel().tolist() == list(range(8))


def test_options_of_image_records(records):
    def first(**options):
        return next(mx.io.ImageRecordIter(records, options.pop("data_shape", (3, 16, 16)), 2, **options))
    plain = first()
    assert first(pad=4, fill_value=7, data_shape=(3, 28, 32)).data[0].asnumpy()[1, 0, [0, 3, 4, 23, 24], 16].tolist() == [7, 7, 10, 10, 7]
    assert first(dtype="float16").data[0].dtype == np.float16 and first(data_shape=(1, 16, 16)).data[0].shape == (2, 1, 16, 16)
    assert first(random_resized_crop=True, min_random_area=0.2, max_random_area=0.5, max_aspect_ratio=0.2).data[0].shape == plain.data[0].shape
    with open("other.lst", "w") as file:
        file.writelines(f"{i}\t{i + 10}\tname{i}.png\n" for i in range(1, 7))
    assert first(path_imglist="other.lst").label[0].asnumpy().tolist() == [11, 12]
    mx.nd.save("mean.nd", {"mean_img": mx.nd.ones((3, 16, 16)) * 4})
    assert first(mean_img="mean.nd").data[0].asnumpy()[1, 0, 0, 0] == 6
    slope = np.tile(np.arange(16, dtype="uint8")[None, :, None], (16, 1, 3))
    writer = mx.recordio.MXIndexedRecordIO("slope.idx", "slope.rec", "w")
    writer.write_idx(0, mx.recordio.pack_img(mx.recordio.IRHeader(0, 0.0, 0, 0), slope, img_fmt=".png"))
    writer.close()
    assert next(mx.io.ImageRecordIter("slope.rec", (3, 16, 16), 1, mirror=True)).data[0].asnumpy()[0, 0, 0].tolist() == list(range(15, -1, -1))
    for name, value in (("aug_seq", "other"), ("mean_img", "absent.nd")):
        with pytest.raises(NotImplementedError, match=name):
            first(**{name: value})
    with pytest.raises(ValueError, match="random_resized_crop"):
        first(random_resized_crop=True, rand_crop=True)
    assert first(preprocess_threads=4, prefetch_buffer=1, verbose=False, max_random_scale=1.0).data[0].shape == (2, 3, 16, 16)


def weights_of(interp, out, size):
    """The matrix that resizing applies along one axis, written down from its definition."""
    scale, matrix = size / out, np.zeros((out, size))
    for i in range(out):
        at = (i + 0.5) * scale - 0.5
        if interp == 3:
            for j in range(size):
                matrix[i, j] = max(0, min((i + 1) * scale, j + 1) - max(i * scale, j)) / scale
            continue
        places = np.arange(int(np.floor(at)) - 3, int(np.floor(at)) + 5)
        x = np.abs(at - places)
        if interp == 2:
            values = np.where(x <= 1, 1.25 * x ** 3 - 2.25 * x ** 2 + 1, np.where(x < 2, -0.75 * (x ** 3 - 5 * x ** 2 + 8 * x - 4), 0))
        else:
            values = np.where(x < 4, np.sinc(x) * np.sinc(x / 4), 0)
        np.add.at(matrix[i], np.clip(places, 0, size - 1), values / values.sum())
    return matrix


@pytest.mark.parametrize("interp", (2, 3, 4))
def test_ways_to_resize(interp):
    """Cubic, by area and with Lanczos' window: what OpenCV's numbers mean, not the bilinear that stood in for them."""
    pixels = np.random.RandomState(0).uniform(0, 255, (9, 12, 3))
    for height, width in ((5, 6), (4, 7), *(((20, 13),) if interp != 3 else ())):
        expected = np.einsum("ah,bw,hwc->abc", weights_of(interp, height, 9), weights_of(interp, width, 12), pixels)
        found = mx.image.imresize(mx.nd.array(pixels), width, height, interp=interp)
        np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-4, atol=1e-3)
    whole = mx.image.imresize(mx.nd.array(np.where(pixels > 128, 255, 0), dtype="uint8"), 30, 30, interp=2).asnumpy()
    assert whole.dtype == np.uint8 and {0, 255} <= set(whole.ravel()), "what a cubic overshoots is cut off"


def _record_of(pixels):
    writer = mx.recordio.MXIndexedRecordIO("one.idx", "one.rec", "w")
    writer.write_idx(0, mx.recordio.pack_img(mx.recordio.IRHeader(0, 0.0, 0, 0), pixels, img_fmt=".png"))
    writer.close()
    return lambda **options: next(mx.io.ImageRecordIter("one.rec", options.pop("data_shape", (3, 16, 16)), 1, **options)).data[0].asnumpy()[0]


def test_images_of_records_are_turned_and_stretched():
    pixels = np.random.RandomState(0).randint(0, 255, (17, 17, 3)).astype("uint8")
    first, whole = _record_of(pixels[:, :, ::-1]), (3, 17, 17)  # packed as blue, green, red
    # Turned around the corner between pixels, as the centre is that of the extents.
    turned = first(rotate=180, data_shape=whole, fill_value=7)
    np.testing.assert_allclose(turned[:, 1:, 1:], pixels.transpose(2, 0, 1)[:, :0:-1, :0:-1], atol=1)
    assert (turned[:, 0] == 7).all()
    assert first(min_random_scale=2.0, max_random_scale=2.0, data_shape=(3, 34, 34)).shape == (3, 34, 34)
    assert first(min_img_size=40, data_shape=(3, 40, 40), fill_value=9)[0, 0, 0] == 9
    assert first(max_crop_size=9, min_crop_size=9, data_shape=(3, 9, 9)).tolist() == pixels.transpose(2, 0, 1)[:, 4:13, 4:13].tolist()
    with pytest.raises(ValueError, match="max_crop_size"):
        first(max_crop_size=90, min_crop_size=9)
    for options in ({"max_rotate_angle": 30}, {"max_shear_ratio": 0.3}, {"max_aspect_ratio": 0.25}, {"min_aspect_ratio": 0.5, "max_aspect_ratio": 1.5},
                    {"random_h": 36, "random_s": 50, "random_l": 50}, {"max_random_contrast": 0.4, "max_random_illumination": 20.0}):
        seen = {first(**options).tobytes() for _ in range(6)}
        assert len(seen) > 1, options


def test_colours_by_hue_lightness_and_saturation():
    import colorsys
    pixels = np.random.RandomState(1).randint(0, 255, (5, 6, 3)).astype("uint8")
    for move in ({"hue": 20}, {"lightness": -40}, {"saturation": 60}, {"hue": -15, "lightness": 30, "saturation": -20}):
        found = mx.nd.image.adjust_hls(mx.nd.array(pixels, dtype="uint8"), **move).asnumpy()
        for pixel, got in zip(pixels.reshape(-1, 3), found.reshape(-1, 3)):
            h, l, s = colorsys.rgb_to_hls(*pixel / 255)
            moved = [min(max(x + move.get(name, 0) / whole, 0), 1) for x, name, whole in ((h, "hue", 180), (l, "lightness", 255), (s, "saturation", 255))]
            assert np.abs(got - np.array(colorsys.hls_to_rgb(*moved)) * 255).max() <= 1


def test_images_are_warped():
    pixels = mx.nd.array(np.random.RandomState(2).rand(4, 6, 2))
    shifted = mx.nd.image.warp_affine(pixels, matrix=(1, 0, 2, 0, 1, 1), height=4, width=6, fill_value=5).asnumpy()
    assert np.allclose(shifted[1:, 2:], pixels.asnumpy()[:-1, :-2]) and (shifted[0] == 5).all() and (shifted[:, :2] == 5).all()
    half = mx.nd.image.warp_affine(pixels, matrix=(1, 0, 0.5, 0, 1, 0), height=4, width=6).asnumpy()
    assert np.allclose(half[:, 1:], (pixels.asnumpy()[:, 1:] + pixels.asnumpy()[:, :-1]) / 2)
    with pytest.raises(mx.base.MXNetError, match="inverse"):
        mx.nd.image.warp_affine(pixels, matrix=(1, 1, 0, 1, 1, 0), height=4, width=6)
