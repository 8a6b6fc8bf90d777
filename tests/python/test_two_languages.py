"""What C++ and Python both have is the same in both: names, defaults and numbers."""
import copy
import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest

import gluino as mx
import layer_samples
from gluino import _core, gluon, nd

# Python's names that are another's with other options, or that C++ goes without.
ONLY_IN_PYTHON = {"ccsgd", "lbsgd", "signsgd", "test", "groupadagrad"}
OPTIMIZERS = _core.names_of("optimizer")
# The common options, which every class takes as keywords with these defaults; None stands for a negative bound.
COMMON = {"wd": 0.0, "rescale_grad": 1.0, "clip_gradient": None, "multi_precision": False, "learning_rate": 0.01}


def test_optimizers_have_the_same_names():
    ours = {name for name, cls in mx.optimizer.Optimizer.opt_registry.items() if cls.__module__.startswith("gluino")}
    assert ours - ONLY_IN_PYTHON == set(OPTIMIZERS)


def _defaults(cls):
    found = dict(COMMON)
    for base in reversed(cls.__mro__):
        if "__init__" in vars(base) and base is not object:
            named = {name: p.default for name, p in inspect.signature(base.__init__).parameters.items() if p.default is not p.empty}
            found.update({name: value for name, value in named.items() if name in found or base is cls})
    return found


def _number(text):
    return {"True": True, "False": False}.get(text) if text in ("True", "False") else float(text)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_have_the_same_defaults(name):
    python = _defaults(mx.optimizer.Optimizer.opt_registry[name])
    python["learning_rate"] = mx.optimizer.create(name).lr
    for option, default, _ in _core.options_of("optimizer", name):
        value = _number(default)
        assert python[option] == (None if not isinstance(value, bool) and value < 0 else value), option


def _shapes():
    return {"a_weight": (3, 4), "a_bias": (4,), "b_gamma": (2,), "b_weight": (2, 3, 2)}


def _options_of(name):
    """The defaults, and every option of the optimizer's own with another value."""
    changed = {}
    for option, default, _ in _core.options_of("optimizer", name):
        value = _number(default)
        if option not in ("learning_rate", "multi_precision", "rescale_grad"):
            changed[option] = not value if isinstance(value, bool) else 0.5 if value <= 0 else value * 0.9
    return [{}, changed]


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_take_the_same_steps(name, which):
    options, numbers = _options_of(name)[which], np.random.default_rng(7)
    weights = {key: numbers.normal(size=shape).astype("float32") for key, shape in _shapes().items()}
    python, cpp = ([nd.array(w) for w in weights.values()] for _ in range(2))
    optimizer = mx.optimizer.create(name, param_idx2name=dict(enumerate(weights)), **options)
    optimizer.set_wd_mult({key: 1.0 for key in weights})
    updater, library = mx.optimizer.get_updater(optimizer), _core.Optimizer(name, options)
    states = [tuple(library.create_state(w)) for w in cpp]
    lr, wd = optimizer.lr, options.get("wd", 0.0)
    for step in range(1, 7):
        grads = [nd.array(numbers.normal(size=w.shape)) for w in python]
        mx.random.seed(step)  # sgld draws
        updater(list(range(len(python))), grads, python)
        mx.random.seed(step)
        library.update([(key, w, g, s, lr, wd, step) for key, w, g, s in zip(weights, cpp, grads, states)], 1.0)
    for key, a, b in zip(weights, python, cpp):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy(), err_msg=key)


def test_nadam_goes_on_from_weight_to_weight():
    """MXNet 1.9 keeps one product of the momenta for all weights, in the order of their updates."""
    library, weights = _core.Optimizer("nadam", {}), [nd.array([1.0, 2.0]), nd.array([3.0])]
    states, grads, product = [tuple(library.create_state(w)) for w in weights], [nd.array([0.5, -1.0]), nd.array([2.0])], 1.0
    wanted = [w.asnumpy().astype("float64") for w in weights]
    moments = [[np.zeros_like(w), np.zeros_like(w)] for w in wanted]
    for t in range(1, 5):
        library.update([(str(i), w, g, s, 0.1, 0.0, t) for i, (w, g, s) in enumerate(zip(weights, grads, states))], 1.0)
        now, after = (0.9 * (1 - 0.5 * 0.96 ** (step * 0.004)) for step in (t, t + 1))
        for w, g, pair in zip(wanted, grads, moments):
            g, product = g.asnumpy(), product * now
            pair[:] = 0.9 * pair[0] + 0.1 * g, 0.999 * pair[1] + 0.001 * g * g
            mean = (1 - now) * g / (1 - product) + after * pair[0] / (1 - product * after)
            w -= 0.1 * mean / (np.sqrt(pair[1] / (1 - 0.999**t)) + 1e-8)
    for w, right in zip(weights, wanted):
        np.testing.assert_allclose(w.asnumpy(), right, rtol=1e-5)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_of_users_and_copies(name):
    """A class derived from one of ours is run weight by weight; copies go on where the first was."""
    class Own(mx.optimizer.Optimizer.opt_registry[name]):
        seen = 0

        def step_one(self, index, weight, grad, state, lr, wd, t):
            before = weight.asnumpy()
            super().step_one(index, weight, grad, state, lr, wd, t)
            self.seen += not (before == weight.asnumpy()).all()

    ours, own = mx.optimizer.create(name), Own()
    runs = [mx.optimizer.get_updater(o) for o in (ours, own)]
    weights = [[nd.ones((3, 2)), nd.ones((2,)) * 2] for _ in runs]
    for step in range(3):
        for updater, pair in zip(runs, weights):
            mx.random.seed(step)
            updater([0, 1], [nd.array([[1, 2], [3, 4], [5, 6]]), nd.array([-1, 1])], pair)
        runs[0].optimizer = pickle.loads(pickle.dumps(copy.deepcopy(runs[0].optimizer)))
    assert own.seen == 6
    if name != "sgld":  # it draws for all weights at once, or for each
        for a, b in zip(*weights):
            np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_definitions_without_a_class_get_one(name):
    made = mx.optimizer.optimizers._from_definition(name)
    options = {option for option, _, _ in _core.options_of("optimizer", name)}
    assert options - COMMON.keys() <= inspect.signature(made.__init__).parameters.keys()
    if name in ("nadam", "lars"):
        return  # their classes keep numbers that MXNet keeps elsewhere than in states
    first, second = made(), mx.optimizer.create(name)
    assert first.lr == second.lr
    weights = [nd.ones((2, 3)), nd.ones((2, 3))]
    for optimizer, weight in zip((first, second), weights):
        mx.random.seed(1)
        updater = mx.optimizer.get_updater(optimizer)
        for _ in range(3):
            updater(0, nd.array([[1, 2, 3], [4, 5, 6]]), weight)
    np.testing.assert_array_equal(weights[0].asnumpy(), weights[1].asnumpy())


def test_wrong_options_are_told():
    with pytest.raises(mx.MXNetError, match="has no option 'momentun'"):
        _core.Optimizer("sgd", {"momentun": 0.9})
    with pytest.raises(mx.MXNetError, match="no optimizer is named 'sdg'"):
        _core.Optimizer("sdg", {})
    with pytest.raises(mx.MXNetError, match="option 'momentum'"):
        mx.optimizer.SGD(momentum="much")


# ---- losses

# SDMLLoss reads the batch size, and C++ has none of it; the others are names of the same class.
LOSSES_ONLY_IN_PYTHON = {"Loss", "SDMLLoss", "SigmoidBCELoss", "SoftmaxCELoss"}
LOSSES = _core.names_of("loss")


def test_losses_have_the_same_names():
    assert set(gluon.loss.__all__) - LOSSES_ONLY_IN_PYTHON == set(LOSSES)


@pytest.mark.parametrize("name", LOSSES)
def test_losses_have_the_same_defaults(name):
    python = {n: p.default for n, p in inspect.signature(getattr(gluon.loss, name).__init__).parameters.items() if p.default is not p.empty}
    python.update({n: p.default for n, p in inspect.signature(getattr(gluon.loss, name).hybrid_forward).parameters.items() if n == "epsilon"})
    for option, default, _ in _core.options_of("loss", name):
        value = python.pop(option)
        if option == "weight":
            assert value in (None, 1.0) and default == "None"
        else:
            assert default == (value if isinstance(value, str) else default) and (isinstance(value, str) or _number(default) == value), option
    assert not python


def _loss_inputs(name):
    inputs = layer_samples.LOSSES[name][1]()
    if name == "CosineEmbeddingLoss":
        inputs[2] = nd.array([1, -1, 1, -1])
    return inputs


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_give_the_same_numbers(name, hybridized):
    inputs, loss = _loss_inputs(name), getattr(gluon.loss, name)()
    if hybridized:
        loss.hybridize()
    library = _core.Loss(name, {})
    gradients = []
    for call in (lambda: loss(*inputs), lambda: library(tuple(inputs))):
        inputs[0].attach_grad()
        with mx.autograd.record():
            out = call()
        out.backward()
        gradients.append((out.asnumpy(), inputs[0].grad.asnumpy()))
    for python, cpp in zip(*gradients):
        np.testing.assert_allclose(python, cpp, rtol=1e-6, atol=1e-7)
    assert gradients[0][0].shape in ((len(inputs[0]),), (1,))


def test_losses_notice_changes_of_their_options():
    loss, pred, label = gluon.loss.HuberLoss(rho=1), nd.array([[3.0]]), nd.array([[0.0]])
    loss.hybridize()
    assert loss(pred, label).asscalar() == 2.5
    loss._rho, loss._weight = 2, 10
    assert loss(pred, label).asscalar() == 20


def test_losses_on_symbols():
    pred, label = mx.sym.var("pred"), mx.sym.var("label")
    for name in LOSSES:
        if name not in ("TripletLoss", "CosineEmbeddingLoss"):
            made = getattr(gluon.loss, name)()(pred, label)
            again = mx.sym.load_json(made.tojson())
            assert sorted(again.list_arguments()) == ["label", "pred"]
            inputs = _loss_inputs(name)
            run = again.bind(mx.cpu(), {"pred": inputs[0], "label": inputs[1]}).forward()[0]
            np.testing.assert_allclose(run.asnumpy(), getattr(gluon.loss, name)()(*inputs).asnumpy(), rtol=1e-6)


def test_cosine_embedding_of_sequences():
    """As MXNet documents it, there is one number for each sample of the batch."""
    a, b = nd.random.normal(shape=(2, 3, 4)), nd.random.normal(shape=(2, 3, 4))
    found = gluon.loss.CosineEmbeddingLoss()(a, b, nd.array([[1, -1, 1], [-1, 1, 1]]))
    x, y = a.asnumpy(), b.asnumpy()
    cosine = (x * y).sum(-1) / np.linalg.norm(x, axis=-1) / np.linalg.norm(y, axis=-1)
    wanted = np.where(np.array([[1, -1, 1], [-1, 1, 1]]) == 1, 1 - cosine, np.maximum(cosine, 0)).mean(1)
    np.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-5, atol=1e-6)


# ---- initialisers

INITIALIZERS = _core.names_of("initializer")
# Zero and One are "zeros" and "ones"; FusedRNN is for the symbolic cells, which C++ does without.
INITIALIZERS_ONLY_IN_PYTHON = {"zero", "one", "fusedrnn"}


def test_initializers_have_the_same_names():
    ours = {name for name, cls in mx.initializer._registry.items() if cls.__module__.startswith("gluino")}
    assert ours - INITIALIZERS_ONLY_IN_PYTHON == set(INITIALIZERS)


def _shape_for(name):
    return {"lstmbias": (8,), "bilinear": (2, 3, 4, 4)}.get(name, (6, 4, 3))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", INITIALIZERS)
def test_initializers_fill_the_same(name, dtype):
    given = {"value": 3.5} if name == "constant" else {}
    arrays = []
    for fill in (lambda array: mx.init.create(name, **given).init_weight("w", array), lambda array: _core.fill(name, given, "w", array)):
        array = nd.zeros(_shape_for(name), dtype=dtype)
        mx.random.seed(3)
        fill(array)
        arrays.append(array.asnumpy())
    np.testing.assert_array_equal(*arrays)
    assert name == "zeros" or arrays[0].any()


@pytest.mark.parametrize("name", INITIALIZERS)
def test_initializers_have_the_same_defaults(name):
    python = inspect.signature(mx.initializer._registry[name].__init__).parameters
    for option, default, _ in _core.options_of("initializer", name):
        value = python[option].default
        if value is not inspect.Parameter.empty:
            assert default == value if isinstance(value, str) else float(default) == value, option


def test_orthogonal_rows():
    for shape in ((3, 7), (7, 3), (4, 2, 3), (5,)):
        array = nd.zeros(shape)
        mx.init.Orthogonal(scale=2.0).init_weight("w", array)
        flat = array.asnumpy().reshape(shape[0], -1)
        product = flat @ flat.T if flat.shape[0] <= flat.shape[1] else flat.T @ flat
        np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)


# ---- metrics

METRICS = _core.names_of("metric")
METRICS_ONLY_IN_PYTHON = {"caffe", "torch", "compositeevalmetric", "composite", "custommetric",  # made of others, or by an old name
                          "crossentropy", "pearsoncorrelation", "topkaccuracy", "top_k_acc"}  # other names


def test_metrics_have_the_same_names():
    ours = {name for name, cls in mx.registry.get_registry(mx.metric.EvalMetric).items() if cls.__module__.startswith("gluino")}
    assert ours - METRICS_ONLY_IN_PYTHON == set(METRICS)


@pytest.mark.parametrize("name", METRICS)
def test_metrics_have_the_same_defaults(name):
    python = inspect.signature(mx.registry.get_registry(mx.metric.EvalMetric)[name].__init__).parameters
    for option, default, _ in _core.options_of("metric", name):
        if option in python and option != "name":
            assert default == python[option].default if isinstance(python[option].default, str) else (
                str(default) == "None" if python[option].default is None else float(default) == python[option].default), option


def _batches(name):
    numbers = np.random.default_rng(5)
    for size in (3, 5, 2):
        if name in ("mae", "mse", "rmse", "pearsonr", "loss"):
            yield numbers.normal(size=(size, 2)), numbers.normal(size=(size, 2))
        else:
            scores = numbers.uniform(0.05, 1, size=(size, 2 if name in ("f1", "mcc") else 4))
            yield numbers.integers(0, scores.shape[1], size).astype("float32"), scores / scores.sum(1, keepdims=True)


@pytest.mark.parametrize("name", [name for name in METRICS if name != "pcc"])
def test_metrics_give_the_same_numbers(name):
    options = {"top_k": 2} if name == "top_k_accuracy" else {"ignore_label": 1} if name == "perplexity" else {}
    python = mx.metric.create(name, **options)
    total = count = 0
    for label, pred in _batches(name):
        python.update([nd.array(label)], [nd.array(pred)])
        a, b = _core.metric_counts(name, options, nd.array(label), nd.array(pred))
        total, count = total + a, count + b
    value = total / count
    assert python.get()[1] == pytest.approx(np.exp(value) if name == "perplexity" else value, rel=1e-6)


def test_the_correlation_of_classes():
    """Of two classes it is that of Matthews; it is no mean of the batches'."""
    pcc, mcc = mx.metric.create("pcc"), mx.metric.MCC(average="micro")
    for label, pred in _batches("mcc"):
        for metric in (pcc, mcc):
            metric.update([nd.array(label)], [nd.array(pred)])
    assert pcc.get()[1] == pytest.approx(mcc.get()[1], rel=1e-6)
    classes = mx.metric.create("pcc")
    classes.update([nd.array([0, 1, 2, 0])], [nd.array([[3, 1, 1], [1, 3, 1], [1, 1, 3], [1, 1, 3]])])
    assert classes.get()[1] == pytest.approx(0.7) and pickle.loads(pickle.dumps(classes)).get() == classes.get()


def test_metrics_by_their_formulas():
    """MXNet 1.9: errors are means over batches, the entropy adds eps, correlations are means of the batches'."""
    batches = list(_batches("mae"))
    for name, of in (("mae", lambda d: np.abs(d).mean()), ("mse", lambda d: (d**2).mean()), ("rmse", lambda d: np.sqrt((d**2).mean()))):
        metric = mx.metric.create(name)
        for label, pred in batches:
            metric.update([nd.array(label)], [pred.astype("float32")])
        assert metric.get()[1] == pytest.approx(np.mean([of(label - pred) for label, pred in batches]), rel=1e-5)
        assert metric.num_inst == 3 and isinstance(metric.num_inst, int)
    metric = mx.metric.CrossEntropy(eps=0.5)
    metric.update([nd.array([1])], [nd.array([[0.75, 0.25]])])
    assert metric.get()[1] == pytest.approx(-np.log(0.75))
    metric = mx.metric.PearsonCorrelation()
    for label, pred in batches:
        metric.update([nd.array(label)], [nd.array(pred)])
    assert metric.get()[1] == pytest.approx(np.mean([np.corrcoef(label.ravel(), pred.ravel())[0, 1] for label, pred in batches]), rel=1e-5)


# ---- schedules

SCHEDULES = {"factor": (mx.lr_scheduler.FactorScheduler, 5, ("factor", "stop_factor_lr")),
             "multi_factor": (mx.lr_scheduler.MultiFactorScheduler, [4, 9, 20], ("factor",)),
             "poly": (mx.lr_scheduler.PolyScheduler, 30, ("pwr", "final_lr")), "cosine": (mx.lr_scheduler.CosineScheduler, 30, ("final_lr",))}
WARM = [{}, {"warmup_steps": 6, "warmup_begin_lr": 0.02}, {"warmup_steps": 6, "warmup_mode": "constant", "warmup_begin_lr": 0.01}]


@pytest.mark.parametrize("warm", WARM)
@pytest.mark.parametrize("own", [{}, {"factor": 0.5, "stop_factor_lr": 0.04, "pwr": 1, "final_lr": 0.01}])
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_give_the_same_rates(name, own, warm):
    make, at, options = SCHEDULES[name]
    python = make(at, base_lr=0.3, **warm, **{option: own[option] for option in options if option in own})
    defaults = {n: p.default for n, p in inspect.signature(make.__init__).parameters.items()}
    values = [float(own.get(option, defaults[option])) for option in options]
    for n in range(1, 40):
        cpp = _core.lr_schedule(name, at if isinstance(at, list) else [at], values, 0.3, warm.get("warmup_steps", 0), warm.get("warmup_begin_lr", 0),
                                warm.get("warmup_mode", "linear"), n)
        assert python(n) == pytest.approx(cpp, rel=1e-12), n
    assert copy.deepcopy(python)(40) == python(40) and pickle.loads(pickle.dumps(python)).base_lr == python.base_lr


# ---- what else the two Gluons had come to differ in

def test_patterns_of_parameters_begin_the_name():
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gluon.nn.Dense(2, in_units=3), gluon.nn.Dense(2, in_units=2))
    assert len(net.collect_params("weight")) == 0 and len(net.collect_params(".*weight")) == 2 and len(net.collect_params("net_dense0")) == 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_statistics_stay_wide(dtype):
    layer = gluon.nn.BatchNorm(in_channels=2)
    layer.initialize()
    layer.cast(dtype)
    assert str(np.dtype(layer.running_var.dtype)) == ("float64" if dtype == "float64" else "float32")


# ---- the zoo

MODELS = _core.names_of("model")


def test_models_have_the_same_names():
    assert set(gluon.model_zoo.vision._models) == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_models_have_the_same_parameters(name):
    shape = (1, 1, 28, 28) if name in ("mlp", "lenet") else (1, 3, 299, 299) if name.startswith("inception") else (1, 3, 224, 224)
    net, shapes = gluon.model_zoo.vision.get_model(name), []
    for prefix, program in ((net.prefix, net(mx.sym.var("data"))), _core.zoo_program(name)):
        arguments, _, states = program.infer_shape(data=shape)
        found = dict(zip(program.list_arguments() + program.list_auxiliary_states(), arguments + states))
        shapes.append({key[len(prefix):]: value for key, value in found.items() if key != "data"})
    assert shapes[0] == shapes[1]


def test_losses_are_wide_under_amp():
    """amp.init() is for the whole process; operators that lose digits in float16 are cast, also those that a loss calls."""
    program = """
import gluino as mx
from gluino import gluon, nd
mx.contrib.amp.init()
pred = (nd.arange(12).reshape((3, 4)) * 100).astype("float16")
for loss, label in ((gluon.loss.SoftmaxCrossEntropyLoss(), nd.array([0, 1, 2], dtype="int32")), (gluon.loss.L2Loss(), nd.zeros((3, 4), dtype="float16"))):
    wide = type(loss)()(pred.astype("float32"), label)
    for hybridized in (False, True):
        loss.hybridize(hybridized)
        out = loss(pred, label)
        assert out._dtype_name == "float32" and (out == wide).asnumpy().all(), out
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
