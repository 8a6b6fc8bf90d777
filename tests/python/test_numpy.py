"""mx.np: values as NumPy's, gradients, hybridized programs, and errors where NumPy computes."""
import numpy as np
import pytest

import gluino as mx
from gluino import autograd

RNG = np.random.RandomState(3)
A, B, V, W = (RNG.randn(*shape).astype("float32") for shape in ((3, 4), (2, 5), (6,), (6,)))
T = RNG.randn(2, 3, 3).astype("float32")
HOLES = np.where(A > 1, np.nan, A)

# (function of NumPy's or mx.np's module, arrays)
CASES = {
    "roll": (lambda np, a: np.roll(a, 2), A), "roll axis": (lambda np, a: np.roll(a, -5, 1), A), "roll axes": (lambda np, a: np.roll(a, (1, 2), (0, 1)), A),
    "rot90": (lambda np, a: np.rot90(a), A), "rot90 k": (lambda np, a: np.rot90(a, 3), A), "rot90 twice": (lambda np, a: np.rot90(a, 2), A),
    "flips": (lambda np, a: np.flipud(np.fliplr(a)), A),
    "pad": (lambda np, a: np.pad(a, 1), A), "pad constant": (lambda np, a: np.pad(a, ((1, 0), (2, 3)), "constant", constant_values=(4, 5)), A),
    **{f"pad {mode}": (lambda np, a, mode=mode: np.pad(a, ((1, 2), (0, 3)), mode), A) for mode in ("edge", "reflect", "symmetric", "maximum", "minimum", "mean")},
    "meshgrid": (lambda np, a, b: np.meshgrid(a, b)[0] * np.meshgrid(a, b)[1], V, W), "meshgrid ij": (lambda np, a, b: np.meshgrid(a, b, indexing="ij")[0], V, W),
    "kron": (lambda np, a, b: np.kron(a, b), A, B), "cross": (lambda np, a: np.cross(a, a[::-1]), T), "cross 2": (lambda np, a: np.cross(a[:, :2], a[:, 1:]), T[0]),
    "diagonal": (lambda np, a: np.diagonal(a, 1), A), "diagonal of more": (lambda np, a: np.diagonal(a, 0, 1, 2), T), "trace": (lambda np, a: np.trace(a), A),
    "diagflat": (lambda np, a: np.diagflat(a, 1), V), "insert": (lambda np, a: np.insert(a, 1, 7.0), V), "insert rows": (lambda np, a: np.insert(a, 1, 5.0, 0), A),
    "insert some": (lambda np, a: np.insert(a, [0, 2, 2], [1.0, 2.0, 3.0]), V), "delete": (lambda np, a: np.delete(a, [0, -1], 1), A),
    "delete slice": (lambda np, a: np.delete(a, slice(0, 2), 0), A), "resize": (lambda np, a: np.resize(a, (5, 4)), A),
    "splits": (lambda np, a: np.hsplit(a, 2)[1] + np.vsplit(a, 3)[0][:, :2], A), "column_stack": (lambda np, a, b: np.column_stack([a, b]), V, W),
    "atleast": (lambda np, a: np.atleast_3d(np.atleast_2d(a)), V), "rollaxis": (lambda np, a: np.rollaxis(a, 2), T), "ediff1d": (lambda np, a: np.ediff1d(a, 1.0), A),
    "median": (lambda np, a: np.median(a), A), "median axis": (lambda np, a: np.median(a, axis=1, keepdims=True), A),
    "quantile": (lambda np, a: np.quantile(a, [0.1, 0.6], axis=0), A), "percentile": (lambda np, a: np.percentile(a, 30), A), "ptp": (lambda np, a: np.ptp(a, axis=1), A),
    "cumprod": (lambda np, a: np.cumprod(a, axis=1), A), "polyval": (lambda np, p, x: np.polyval(p, x), V[:3], W), "logaddexp": (lambda np, a, b: np.logaddexp(a, b), V, W),
    "copysign": (lambda np, a, b: np.copysign(a, b), V, W), "exp2": (lambda np, a: np.exp2(a), A), "fmax": (lambda np, a, b: np.fmax(a, b) + np.fmin(a, b), V, W),
    "sinc": (lambda np, a: np.sinc(a), A), "heaviside": (lambda np, a: np.heaviside(a, 0.5) * a, A), "angles": (lambda np, a: np.deg2rad(a) + np.rad2deg(a), A),
    "norms": (lambda np, a: np.linalg.norm(a, 3, axis=1), A), "norm 1": (lambda np, a: np.linalg.norm(a, 1), A), "norm inf": (lambda np, a: np.linalg.norm(a, np.inf, axis=0), A),
    "matrix_power": (lambda np, a: np.linalg.matrix_power(a, 3), T[0]), "multi_dot": (lambda np, a, b: np.linalg.multi_dot([a, b, a]), T[0], T[1]),
    "take_along_axis": (lambda np, a: np.take_along_axis(a, np.array([[0], [2], [1]]).astype("int64"), 1), A),
}


@pytest.mark.parametrize("case", CASES)
def test_values_gradients_and_hybridized_programs(case):
    function, *arrays = CASES[case]
    want = np.asarray(function(np, *arrays))
    inputs = [mx.np.array(a) for a in arrays]
    compiled = mx.hybrid(lambda *args: function(mx.np, *args))
    # A weighted sum makes every element's gradient another.
    weights = np.cos(np.arange(want.size)).reshape(want.shape)
    for run in (lambda *args: function(mx.np, *args), compiled, compiled):
        for x in inputs:
            x.attach_grad()
        with autograd.record():
            y = run(*inputs)
            loss = (y * mx.np.array(weights)).sum()
        np.testing.assert_allclose(y.asnumpy(), want, rtol=2e-4, atol=1e-5)
        assert y.shape == want.shape
        loss.backward()
        for k, (x, a) in enumerate(zip(inputs, arrays)):
            flat = a.astype("float64").ravel()
            for i in range(0, flat.size, 3):
                moved = []
                for step in (1e-4, -1e-4):
                    changed = flat.copy()
                    changed[i] += step
                    given = [changed.reshape(a.shape) if j == k else other.astype("float64") for j, other in enumerate(arrays)]
                    moved.append((np.asarray(function(np, *given)) * weights).sum())
                np.testing.assert_allclose(x.grad.asnumpy().ravel()[i], (moved[0] - moved[1]) / 2e-4, rtol=2e-3, atol=2e-3)


def test_numbers_that_are_none_are_left_out():
    x = mx.np.array(HOLES)
    for name in ("nanmean", "nanvar", "nanstd", "nanmax", "nanmin"):
        np.testing.assert_allclose(getattr(mx.np, name)(x, axis=1).asnumpy(), getattr(np, name)(HOLES, axis=1), rtol=1e-5)
    np.testing.assert_allclose(mx.np.nan_to_num(mx.np.array([np.nan, np.inf, 1]), nan=5, posinf=6).asnumpy(), [5, 6, 1])
    x.attach_grad()
    with autograd.record():
        y = mx.np.nanmean(x)
    y.backward()
    assert np.isfinite(x.grad.asnumpy()).all()


def test_a_block_with_moved_elements_is_exported():
    mx.npx.set_np()

    class Net(mx.gluon.HybridBlock):
        def forward(self, x):
            return mx.np.pad(mx.np.roll(x, 1, 1), ((0, 0), (1, 1)), "edge")
    net = Net()
    net.hybridize()
    want = np.pad(np.roll(A, 1, 1), ((0, 0), (1, 1)), "edge")
    np.testing.assert_allclose(net(mx.np.array(A)).asnumpy(), want)
    net.export("moved")
    loaded = mx.gluon.SymbolBlock.imports("moved-symbol.json", ["data"])
    np.testing.assert_allclose(loaded(mx.np.array(A)).asnumpy(), want)
    np.testing.assert_allclose(loaded(mx.np.array(A[:2])).asnumpy(), want[:2])


def test_what_numpy_computes_has_no_gradient_and_says_so():
    x = mx.np.array(A)
    np.testing.assert_allclose(mx.np.cov(x).asnumpy(), np.cov(A), rtol=1e-4)
    x.attach_grad()
    np.testing.assert_allclose(mx.np.cov(x).asnumpy(), np.cov(A), rtol=1e-4)
    with autograd.record():
        with pytest.raises(mx.MXNetError, match="mx.np.cov is computed by NumPy and has no gradient"):
            mx.np.cov(x)
        assert mx.np.cov(x.detach()).shape == (3, 3)
        assert mx.np.unique((x > 0).astype("int32")).shape == (2,) and mx.np.bincount(mx.np.array([1, 1], dtype="int32")).shape == (2,)
        with pytest.raises(mx.MXNetError, match="linalg.lstsq"):
            mx.np.linalg.lstsq(x, x, rcond=None)
    with pytest.warns(UserWarning, match="cannot be part of a hybridized program"):
        np.testing.assert_allclose(mx.hybrid(mx.np.cov)(x).asnumpy(), np.cov(A), rtol=1e-4)
    u, s, v = mx.np.linalg.svd(x)
    np.testing.assert_allclose(((u * s) @ v).asnumpy(), A, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["eager", "hybridized"])
def test_whole_numbers_and_indices_are_as_in_numpy(mode):
    def check(f, *arrays):
        want = f(np, *arrays)
        compiled = mx.hybrid(lambda *a: f(mx.np, *a))
        call = compiled if mode == "hybridized" else lambda *a: f(mx.np, *a)
        got = call(*[mx.np.array(a, dtype=a.dtype) for a in arrays])
        np.testing.assert_array_equal(got.asnumpy(), want)
        return got

    holes = np.array([[1, np.nan, 3], [4, 2, 0]], "float32")
    assert check(lambda np, a: np.argmax(a, axis=1), holes).dtype == np.int64
    check(lambda np, a: np.argmin(a, axis=0), holes)
    assert check(lambda np, a: np.sum(a), np.ones(300, "uint8")).dtype == np.int64
    assert check(lambda np, a: np.prod(a), np.full(9, 2, "int8")).dtype == np.int64
    assert check(lambda np, a: np.cumsum(a), np.full(9, 100, "int32")).dtype == np.int64
    check(lambda np, a, b: np.fmod(a, b), np.array([-7, 7, -7, 7.5], "float32"), np.array([3, -3, -3, 2], "float32"))
    check(lambda np, a: np.fmod(a, 3), np.array([-7, 7], "float32"))
    check(lambda np, a, i: np.take(a, i, axis=1), holes, np.array([2, -1]))


def test_an_index_out_of_range_is_an_error_except_where_mxnet_clips():
    x, far = mx.np.array([[1.0, 2, 3]]), mx.np.array([5], dtype="int64")
    for call in (lambda a, i: mx.np.take(a, i, axis=1), lambda a, i: a[0][i]):
        for f in (call, mx.hybrid(call)):
            with pytest.raises(IndexError, match="index 5 is out of range"):
                f(x, far)
    nd, number = mx.nd.array([[1.0, 2, 3]]), mx.nd.array([5])
    assert mx.nd.take(nd, number, axis=1).asnumpy().tolist() == [[3]]
    assert mx.nd.pick(nd, number).asnumpy().tolist() == [3]
    assert mx.nd.Embedding(number, nd.T, input_dim=3, output_dim=1).asnumpy().tolist() == [[3]]
    assert mx.nd.argmax(nd, axis=1).dtype == np.float32
    assert mx.nd.ones(300, dtype="uint8").sum().dtype == np.uint8
    assert mx.gluon.loss.SoftmaxCrossEntropyLoss()(nd, number).shape == (1,)


def test_random_numbers_of_arrays_of_parameters():
    random = mx.np.random
    means = mx.np.array([1.0, 5.0, 20.0])
    for draw, expected in ((lambda s: random.gamma(means, 2.0, s), means * 2), (lambda s: random.exponential(means, s), means),
                           (lambda s: random.poisson(means, s), means), (lambda s: random.normal(means, 0.5, s), means),
                           (lambda s: random.chisquare(means, s), means), (lambda s: random.beta(means, 2.0, s), means / (means + 2)),
                           (lambda s: random.lognormal(mx.np.log(means), 0.1, s), means), (lambda s: random.uniform(means, means + 1, s), means + 0.5),
                           (lambda s: random.laplace(means, 0.5, s), means), (lambda s: random.logistic(means, 0.5, s), means),
                           (lambda s: random.rayleigh(means, s), means * np.sqrt(np.pi / 2)), (lambda s: random.power(means, s), means / (means + 1))):
        drawn = draw((4000, 3))
        assert drawn.shape == (4000, 3)
        np.testing.assert_allclose(drawn.mean(axis=0).asnumpy(), expected.asnumpy(), rtol=0.1)
        assert draw(None).shape == (3,)
        with pytest.raises(ValueError):
            draw((3, 2))
    cov = np.array([[2.0, 0.5], [0.5, 1.0]])
    drawn = random.multivariate_normal(mx.np.array([1.0, -1.0]), mx.np.array(cov), size=(20000,)).asnumpy()
    np.testing.assert_allclose(np.cov(drawn.T), cov, atol=0.1)
    chosen = [tuple(sorted(random.choice(4, 2, replace=False, p=[0.7, 0.1, 0.1, 0.1]).asnumpy().tolist())) for _ in range(300)]
    assert all(len(set(pair)) == 2 for pair in chosen) and sum(0 in pair for pair in chosen) > 240
    assert random.choice(mx.np.array([5.0, 6.0]), size=(3, 2)).shape == (3, 2)
    out = mx.np.zeros((2, 3))
    assert random.normal(size=(2, 3), out=out) is out and (out.asnumpy() != 0).all()
    assert mx.npx.random.normal_n(means, 1.0, batch_shape=(4,)).shape == (4, 3)
    for wrong in (lambda: random.normal(0, -1, 2), lambda: random.gamma(-1.0, 1.0, 2), lambda: random.randint(5, 5), lambda: random.exponential(-1.0)):
        with pytest.raises((mx.MXNetError, ValueError)):
            wrong()


def test_arrays_are_np_arrays_everywhere_under_set_np(tmp_path):
    mx.npx.set_np()
    from gluino import gluon
    picture = np.random.RandomState(0).randint(0, 256, (12, 10, 3)).astype("uint8")
    loaded = mx.image.imdecode(mx.image.imencode(picture, img_fmt=".png"))
    for made in (loaded, mx.image.imresize(loaded, 5, 6), mx.image.center_crop(loaded, (4, 4))[0], mx.image.random_crop(loaded, (4, 4))[0],
                 mx.image.HorizontalFlipAug(1.0)(loaded), mx.image.CastAug()(loaded), mx.image.BrightnessJitterAug(0.1)(loaded.astype("float32")),
                 mx.image.SaturationJitterAug(0.1)(loaded.astype("float32")), mx.image.HueJitterAug(0.1)(loaded.astype("float32"))):
        assert isinstance(made, mx.np.ndarray), type(made)
    transforms = gluon.data.vision.transforms
    for change in (transforms.ToTensor(), transforms.Resize(5), transforms.CenterCrop(4), transforms.RandomCrop(4), transforms.RandomResizedCrop(4),
                   transforms.RandomFlipLeftRight(), transforms.RandomBrightness(0.1), transforms.RandomColorJitter(0.1, 0.1, 0.1, 0.1), transforms.Cast(),
                   transforms.Compose([transforms.ToTensor(), transforms.Normalize(0.5, 0.5)])):
        assert isinstance(change(loaded), mx.np.ndarray), type(change).__name__
    data = gluon.data.ArrayDataset(mx.np.ones((6, 2)), mx.np.arange(6))
    for x, y in gluon.data.DataLoader(data, 3):
        assert isinstance(x, mx.np.ndarray) and isinstance(y, mx.np.ndarray)
    for part in gluon.utils.split_and_load(mx.np.ones((4, 2)), [mx.cpu(0), mx.cpu(1)]):
        assert isinstance(part, mx.np.ndarray)
    for metric in (mx.metric.Accuracy(), mx.metric.CrossEntropy()):
        metric.update([mx.np.array([0, 1])], [mx.np.array([[0.9, 0.1], [0.2, 0.8]])])
        assert metric.get()[1] < 1.1
    net = gluon.nn.Dense(2)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    with autograd.record():
        loss = net(mx.np.ones((4, 3))).sum()
    loss.backward()
    trainer.step(mx.np.array(4.0))
    assert mx.np.arange(mx.np.array(3.0)).shape == (3,) and mx.np.full((2,), mx.np.array(4.0)).asnumpy().tolist() == [4, 4]
    assert mx.np.clip(mx.np.array([1.0, 5.0]), min=2, max=mx.np.array(4.0)).asnumpy().tolist() == [2, 4]
    assert mx.npx.batch_flatten(mx.np.ones((2, 3, 4))).shape == (2, 12) and callable(mx.npx.multibox_target)
    with pytest.raises(ValueError, match="bad"):
        mx.npx.constraint_check(mx.np.array([True, False]), "bad")
    mx.npx.save(str(tmp_path / "a"), {"empty": mx.np.zeros((0, 2))})
    again = mx.npx.load(str(tmp_path / "a"))
    assert again["empty"].shape == (0, 2) and isinstance(again["empty"], mx.np.ndarray)


def test_cumprod_of_many_elements_and_of_zeros():
    x = mx.np.array([2., 0., 3., 0., 5.])
    x.attach_grad()
    with autograd.record():
        y = mx.np.cumprod(x)
    y.backward()
    assert y.tolist() == [2, 0, 0, 0, 0] and x.grad.tolist() == [1, 8, 0, 0, 0]
    assert mx.np.cumprod(mx.np.full((300000,), -1.)).tolist() == [-1., 1.] * 150000
