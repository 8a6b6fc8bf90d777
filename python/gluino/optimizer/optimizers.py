"""The optimizers. What each does is defined once, in the library (src/gluon/optimizers/optimizers.cc): here stand MXNet's signatures."""
import functools
import inspect
import json
import operator
import types

from .. import _core
from .. import ndarray as nd
from .optimizer import Optimizer, register

__all__ = ["SGD", "NAG", "Signum", "SignSGD", "Adam", "AdamW", "AdaGrad", "AdaDelta", "Adamax", "Nadam", "RMSProp", "Ftrl", "FTML", "LARS", "LAMB",
           "SGLD", "DCASGD", "ccSGD", "LBSGD"]

_GIVEN_WITH_EACH_STEP = {"learning_rate", "wd", "rescale_grad", "multi_precision"}
_GIVEN_BY_BASE = {"wd", "rescale_grad", "multi_precision", "clip_gradient"}


@functools.lru_cache(maxsize=256)
def _made(definition, names, values):
    return _core.Optimizer(definition, {name: value for name, value in zip(names, values) if value is not None})


def _checked(init):
    """A constructor after which the library has seen the options: the outermost one, once those of the classes above have set theirs."""
    @functools.wraps(init)
    def __init__(self, *args, **kwargs):
        is_outermost = "_is_being_made" not in vars(self)
        self._is_being_made = True
        init(self, *args, **kwargs)
        if is_outermost:
            del self._is_being_made
            self._check_options()
    return __init__


class _Defined(Optimizer):
    """An optimizer of the library. Its options are attributes, which may change between steps."""

    _definition = None
    _takes_rows = False  # whether a gradient of few rows changes those alone: False, True, or "lazy_update" where that option says so
    _attributes = {}  # names of attributes by options, where they differ

    __init__ = _checked(Optimizer.__init__)

    def __init_subclass__(cls, definition=None, **kwargs):
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = _checked(cls.__init__)
        if definition is None:
            return
        options = [(name, default) for name, default, _ in _core.options_of("optimizer", definition) if name not in _GIVEN_WITH_EACH_STEP]
        cls._definition, cls._names = definition, tuple(name for name, _ in options)
        cls._bounds = tuple(default.startswith("-") for _, default in options)  # negative: there is none, as None and 0 say here
        cls._values = operator.attrgetter(*(cls._attributes.get(name, name) for name in cls._names))

    def _of_library(self):
        values = self._values(self) if len(self._names) > 1 else (self._values(self),)
        return _made(self._definition, self._names, tuple((value or None) if is_bound else value for value, is_bound in zip(values, self._bounds)))

    def _check_options(self):
        # A class of the user's may have something of its own there, which its _get_lr turns into a number.
        numbers = {"learning_rate": self.lr, "wd": self.wd, "rescale_grad": self.rescale_grad}
        is_own = type(self)._get_lr is not Optimizer._get_lr
        _core.Optimizer(self._definition, {name: float(value) for name, value in numbers.items() if hasattr(value, "__float__") or not is_own})
        self._of_library()

    # ---- states, in the forms that MXNet's files have

    def create_state(self, index, weight):
        states = self._of_library().create_state(weight)
        return tuple(states) if len(states) > 1 else states[0] if states else None

    def _list_of(self, index, weight, state):
        """The states as the library has them."""
        return () if state is None else (state,) if isinstance(state, nd.NDArray) else tuple(part for part in state if part is not None)

    # ---- steps

    def step_one(self, index, weight, grad, state, lr, wd, t):
        update = self.idx2name.get(index, str(index)), weight, grad, self._list_of(index, weight, state), lr, wd, t
        if isinstance(grad, nd.sparse.RowSparseNDArray) and self._takes_rows and (self._takes_rows is True or self.lazy_update):
            if not grad.data.size:
                return
            update = *update[:2], grad.data, *update[3:], grad.indices
        if self._updates is None:
            self._run([update])
        else:
            self._updates.append(update)

    def _run(self, updates):
        return self._of_library().update(updates, self.rescale_grad)


@register
class SGD(_Defined, definition="sgd"):
    """Stochastic gradient descent, with momentum."""

    _takes_rows = "lazy_update"

    def __init__(self, momentum=0.0, lazy_update=True, learning_rate=0.01, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum, self.lazy_update = momentum, lazy_update


@register
class ccSGD(SGD):
    """SGD by its old name."""


@register
class LBSGD(SGD):
    """SGD for large batches: the warm-up is left to lr_scheduler."""

    def __init__(self, momentum=0.0, multi_precision=False, warmup_strategy="linear", warmup_epochs=5, batch_scale=1, updates_per_epoch=32,
                 begin_epoch=0, num_epochs=60, **kwargs):
        super().__init__(momentum=momentum, multi_precision=multi_precision, **kwargs)


@register
class NAG(SGD, definition="nag"):
    """Nesterov's momentum."""

    _takes_rows = False

    def __init__(self, momentum=0.0, learning_rate=0.01, **kwargs):
        super().__init__(momentum, learning_rate=learning_rate, **kwargs)


@register
class Signum(SGD, definition="signum"):
    """The sign of the momentum (Bernstein et al., 2018)."""

    _takes_rows = False

    def __init__(self, learning_rate=0.01, momentum=0.9, wd_lh=0.0, **kwargs):
        super().__init__(momentum, learning_rate=learning_rate, **kwargs)
        self.wd_lh = wd_lh


@register
class SignSGD(Signum):
    """The sign of the gradient."""

    def __init__(self, learning_rate=0.01, **kwargs):
        super().__init__(learning_rate, 0.0, **kwargs)


@register
class Adam(_Defined, definition="adam"):
    """Adam (Kingma and Ba, 2014)."""

    _takes_rows = "lazy_update"

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, lazy_update=True, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon, self.lazy_update = beta1, beta2, epsilon, lazy_update


@register
class AdamW(Adam, definition="adamw"):
    """Adam with the weight decay outside of the moments (Loshchilov and Hutter, 2017)."""

    _takes_rows = False

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-6, correct_bias=True, **kwargs):
        super().__init__(learning_rate, beta1, beta2, epsilon, **kwargs)
        self.correct_bias = correct_bias


@register
class AdaGrad(_Defined, definition="adagrad"):
    """AdaGrad (Duchi et al., 2011)."""

    _takes_rows = True
    _attributes = {"eps": "float_stable_eps"}

    def __init__(self, eps=1e-7, learning_rate=0.01, epsilon=None, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.float_stable_eps = eps if epsilon is None else epsilon


@register
class AdaDelta(_Defined, definition="adadelta"):
    """AdaDelta (Zeiler, 2012)."""

    def __init__(self, rho=0.90, epsilon=1e-5, learning_rate=1.0, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.rho, self.epsilon = rho, epsilon


@register
class Adamax(_Defined, definition="adamax"):
    """Adam with the maximum norm."""

    def __init__(self, learning_rate=0.002, beta1=0.9, beta2=0.999, epsilon=1e-8, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon


@register
class Nadam(Adam, definition="nadam"):
    """Adam with Nesterov's momentum (Dozat, 2016)."""

    _takes_rows = False

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, schedule_decay=0.004, **kwargs):
        super().__init__(learning_rate, beta1, beta2, epsilon, **kwargs)
        self.schedule_decay = schedule_decay
        self.m_schedule = 1.0  # the product of the momenta so far, over all weights as in MXNet

    def create_state(self, index, weight):
        return super().create_state(index, weight)[:2]

    def _list_of(self, index, weight, state):
        return *state, float(self.m_schedule)

    def _run(self, updates):
        self.m_schedule = super()._run(updates)


@register
class RMSProp(_Defined, definition="rmsprop"):
    """RMSProp (Tieleman and Hinton, 2012), centred as Graves (2013) has it on demand."""

    def __init__(self, learning_rate=0.001, gamma1=0.9, gamma2=0.9, epsilon=1e-8, centered=False, clip_weights=None, rho=None, momentum=None, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.gamma1 = gamma1 if rho is None else rho
        self.gamma2 = gamma2 if momentum is None else momentum
        self.epsilon, self.centered, self.clip_weights = epsilon, centered, clip_weights

    def create_state(self, index, weight):
        state = super().create_state(index, weight)
        return state if self.centered else (state,)


@register
class Ftrl(_Defined, definition="ftrl"):
    """Follow the regularised leader (McMahan et al., 2013)."""

    _takes_rows = True

    def __init__(self, lamda1=0.01, learning_rate=0.1, beta=1, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.lamda1, self.beta = lamda1, beta


@register
class FTML(_Defined, definition="ftml"):
    """Follow the moving leader (Zheng and Kwok, 2017)."""

    def __init__(self, beta1=0.6, beta2=0.999, epsilon=1e-8, learning_rate=0.01, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon


@register
class LARS(SGD, definition="lars"):
    """Rates by the ratio of norms (You et al., 2017)."""

    def __init__(self, momentum=0.0, lazy_update=True, eta=0.001, eps=0, momentum_correction=True, learning_rate=0.01, **kwargs):
        super().__init__(momentum, learning_rate=learning_rate, **kwargs)
        self.eta, self.eps, self.momentum_correction = eta, eps, momentum_correction
        self._last_lr = {}  # of each copy of a weight, as the library keeps it

    def create_state(self, index, weight):
        return super().create_state(index, weight)[0] if self.momentum else None

    def _list_of(self, index, weight, state):
        if state is None:
            return ()
        copy = index, weight.context
        if copy not in self._last_lr:
            self._last_lr[copy] = nd.zeros((1,), weight.context, dtype="float64")
        return state, self._last_lr[copy]


@register
class LAMB(Adam, definition="lamb"):
    """Adam with rates by the ratio of norms (You et al., 2019)."""

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-6, lower_bound=None, upper_bound=None, bias_correction=True, **kwargs):
        super().__init__(learning_rate, beta1, beta2, epsilon, **kwargs)
        self.lower_bound, self.upper_bound, self.bias_correction = lower_bound, upper_bound, bias_correction


@register
class SGLD(_Defined, definition="sgld"):
    """Langevin dynamics: noise in every update."""


@register
class DCASGD(_Defined, definition="dcasgd"):
    """SGD that compensates delays (Zheng et al., 2016)."""

    def __init__(self, momentum=0.0, lamda=0.04, **kwargs):
        super().__init__(**kwargs)
        self.momentum, self.lamda = momentum, lamda

    def create_state(self, index, weight):
        state = super().create_state(index, weight)
        return state if self.momentum else (None, state)


# ---- optimizers of the library that MXNet has not: their options are keywords

def _from_definition(definition):
    own = {name: json.loads(text.lower()) for name, text, _ in _core.options_of("optimizer", definition) if name not in _GIVEN_BY_BASE}

    def __init__(self, **kwargs):
        values = {name: kwargs.pop(name, default) for name, default in own.items() if name != "learning_rate"}
        Optimizer.__init__(self, **{"learning_rate": own["learning_rate"], **kwargs})
        vars(self).update(values)
    keyword = functools.partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
    __init__.__signature__ = inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY),
                                                *(keyword(option, default=default) for option, default in own.items()),
                                                inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)])
    name = "".join(word.capitalize() for word in definition.split("_"))
    described = {"__init__": __init__, "__doc__": f"{definition}, with {', '.join(own) or 'no options'} of its own.", "__module__": __name__}
    return types.new_class(name, (_Defined,), {"definition": definition}, lambda body: body.update(described))


for _name in set(_core.names_of("optimizer")) - {getattr(cls, "_definition", None) for cls in Optimizer.opt_registry.values()}:
    _class = Optimizer.opt_registry[_name] = _from_definition(_name)  # known by the name that it has in C++
    globals()[_class.__name__] = _class
    __all__.append(_class.__name__)
