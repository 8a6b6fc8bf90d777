"""The optimizers: each names its update operator over many weights, and the numbers of one weight."""
import math

from .. import ndarray as nd
from .optimizer import Optimizer, register

__all__ = ["SGD", "NAG", "Signum", "SignSGD", "Adam", "AdamW", "AdaGrad", "AdaDelta", "Adamax", "Nadam", "RMSProp", "Ftrl", "FTML", "LARS", "LAMB",
           "SGLD", "DCASGD", "ccSGD", "LBSGD"]


def _zeros(weight, count=1):
    made = [nd.zeros(weight.shape, weight.context, dtype=weight.dtype) for _ in range(count)]
    return made[0] if count == 1 else tuple(made)


@register
class SGD(Optimizer):
    """Stochastic gradient descent, with momentum."""

    def __init__(self, momentum=0.0, lazy_update=True, learning_rate=0.01, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum = momentum

    def create_state(self, index, weight):
        return _zeros(weight) if self.momentum else None

    def step_one(self, index, weight, grad, state, lr, wd, t):
        if state is None:
            self._step("multi_sgd_update", weight, grad, lr=lr, wd=wd, **self._common())
        else:
            self._step("multi_sgd_mom_update", weight, grad, state, lr=lr, wd=wd, momentum=self.momentum, **self._common())


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
class NAG(SGD):
    """Nesterov's momentum."""

    def __init__(self, momentum=0.0, learning_rate=0.01, **kwargs):
        super().__init__(momentum, learning_rate=learning_rate, **kwargs)

    def step_one(self, index, weight, grad, state, lr, wd, t):
        if state is None:
            self._step("multi_sgd_update", weight, grad, lr=lr, wd=wd, **self._common())
        else:
            self._step("_multi_nag_mom_update", weight, grad, state, lr=lr, wd=wd, momentum=self.momentum, **self._common())


@register
class Signum(SGD):
    """The sign of the momentum (Bernstein et al., 2018)."""

    def __init__(self, learning_rate=0.01, momentum=0.9, wd_lh=0.0, **kwargs):
        super().__init__(momentum, learning_rate=learning_rate, **kwargs)
        self.wd_lh = wd_lh

    def step_one(self, index, weight, grad, state, lr, wd, t):
        if state is None:
            self._step("_multi_signsgd_update", weight, grad, lr=lr, wd=wd, **self._common())
        else:
            self._step("_multi_signum_update", weight, grad, state, lr=lr, wd=wd, momentum=self.momentum, wd_lh=self.wd_lh, **self._common())


@register
class SignSGD(Signum):
    """The sign of the gradient."""

    def __init__(self, learning_rate=0.01, **kwargs):
        super().__init__(learning_rate, 0.0, **kwargs)


@register
class Adam(Optimizer):
    """Adam (Kingma and Ba, 2014)."""

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, lazy_update=True, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def create_state(self, index, weight):
        return _zeros(weight, 2)

    def _moments(self):
        return {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}

    def _bias_correction(self, t):
        return math.sqrt(1 - self.beta2**t) / (1 - self.beta1**t)

    def step_one(self, index, weight, grad, state, lr, wd, t):
        lr *= self._bias_correction(t)
        self._step("_multi_adam_update", weight, grad, *state, lr=lr, wd=wd, **self._moments(), **self._common())


@register
class AdamW(Adam):
    """Adam with the weight decay outside of the moments (Loshchilov and Hutter, 2017)."""

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-6, correct_bias=True, **kwargs):
        super().__init__(learning_rate, beta1, beta2, epsilon, **kwargs)
        self.correct_bias = correct_bias

    def step_one(self, index, weight, grad, state, lr, wd, t):
        if not math.isfinite(self.rescale_grad) or self.rescale_grad == 0:
            return  # an overflow was seen
        lr *= self._bias_correction(t) if self.correct_bias else 1.0  # a factor of the decay too
        self._step("_multi_adamw_step", weight, grad, *state, lr=lr, wd=wd, **self._moments(), **self._common())


@register
class AdaGrad(Optimizer):
    """AdaGrad (Duchi et al., 2011)."""

    def __init__(self, eps=1e-7, learning_rate=0.01, epsilon=None, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.float_stable_eps = eps if epsilon is None else epsilon

    def create_state(self, index, weight):
        return _zeros(weight)

    def step_one(self, index, weight, grad, history, lr, wd, t):
        self._step("_multi_adagrad_update", weight, grad, history, lr=lr, wd=wd, epsilon=self.float_stable_eps, **self._common())


@register
class AdaDelta(Optimizer):
    """AdaDelta (Zeiler, 2012)."""

    def __init__(self, rho=0.90, epsilon=1e-5, learning_rate=1.0, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.rho, self.epsilon = rho, epsilon

    def create_state(self, index, weight):
        return _zeros(weight, 2)

    def step_one(self, index, weight, grad, state, lr, wd, t):
        self._step("_multi_adadelta_update", weight, grad, *state, lr=lr, wd=wd, rho=self.rho, epsilon=self.epsilon, **self._common())


@register
class Adamax(Optimizer):
    """Adam with the maximum norm."""

    def __init__(self, learning_rate=0.002, beta1=0.9, beta2=0.999, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2 = beta1, beta2

    def create_state(self, index, weight):
        return _zeros(weight, 2)

    def step_one(self, index, weight, grad, state, lr, wd, t):
        lr /= 1 - self.beta1**t
        self._step("_multi_adamax_update", weight, grad, *state, lr=lr, wd=wd, beta1=self.beta1, beta2=self.beta2, **self._common())


@register
class Nadam(Adam):
    """Adam with Nesterov's momentum (Dozat, 2016)."""

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, schedule_decay=0.004, **kwargs):
        super().__init__(learning_rate, beta1, beta2, epsilon, **kwargs)
        self.schedule_decay = schedule_decay
        self.m_schedule = 1.0  # the product of the momenta so far, over all weights as in MXNet

    def step_one(self, index, weight, grad, state, lr, wd, t):
        now, after = (self.beta1 * (1.0 - 0.5 * 0.96 ** (step * self.schedule_decay)) for step in (t, t + 1))
        self.m_schedule *= now
        self._step("_multi_nadam_update", weight, grad, *state, lr=lr * after / (1.0 - self.m_schedule * after), wd=wd, t=t,
                   each={"gradient_lrs": lr * (1.0 - now) / (1.0 - self.m_schedule)}, **self._moments(), **self._common())


@register
class RMSProp(Optimizer):
    """RMSProp (Tieleman and Hinton, 2012), centred as Graves (2013) has it on demand."""

    def __init__(self, learning_rate=0.001, gamma1=0.9, gamma2=0.9, epsilon=1e-8, centered=False, clip_weights=None, rho=None, momentum=None, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.gamma1 = gamma1 if rho is None else rho
        self.gamma2 = gamma2 if momentum is None else momentum
        self.epsilon, self.centered, self.clip_weights = epsilon, centered, clip_weights

    def create_state(self, index, weight):
        return _zeros(weight, 3) if self.centered else (_zeros(weight),)

    def step_one(self, index, weight, grad, state, lr, wd, t):
        more = {"gamma1": self.gamma1, "epsilon": self.epsilon, "clip_weights": self.clip_weights or -1, **self._common()}
        if self.centered:
            self._step("_multi_rmspropalex_update", weight, grad, *state, lr=lr, wd=wd, gamma2=self.gamma2, **more)
        else:
            self._step("_multi_rmsprop_update", weight, grad, *state, lr=lr, wd=wd, **more)


@register
class Ftrl(Optimizer):
    """Follow the regularised leader (McMahan et al., 2013)."""

    def __init__(self, lamda1=0.01, learning_rate=0.1, beta=1, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.lamda1, self.beta = lamda1, beta

    def create_state(self, index, weight):
        return _zeros(weight, 2)

    def step_one(self, index, weight, grad, state, lr, wd, t):
        self._step("_multi_ftrl_update", weight, grad, *state, lr=lr, wd=wd, lamda1=self.lamda1, beta=self.beta, **self._common())


@register
class FTML(Optimizer):
    """Follow the moving leader (Zheng and Kwok, 2017)."""

    def __init__(self, beta1=0.6, beta2=0.999, epsilon=1e-8, learning_rate=0.01, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def create_state(self, index, weight):
        return _zeros(weight, 3)

    def step_one(self, index, weight, grad, state, lr, wd, t):
        self._step("_multi_ftml_update", weight, grad, *state, lr=lr, wd=wd, t=t, beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon,
                   rescale_grad=self.rescale_grad, clip_grad=self.clip_gradient or -1)


@register
class LARS(SGD):
    """Rates by the ratio of norms (You et al., 2017)."""

    def __init__(self, momentum=0.0, lazy_update=True, eta=0.001, eps=0, momentum_correction=True, learning_rate=0.01, **kwargs):
        super().__init__(momentum, learning_rate=learning_rate, **kwargs)
        self.eta, self.eps, self.momentum_correction, self._last_lr = eta, eps, momentum_correction, {}

    def step_one(self, index, weight, grad, state, lr, wd, t):
        momentum, copy = self.momentum, (index, weight.context)
        last = self._last_lr.get(copy)
        if self.momentum_correction and last:
            momentum *= lr / last
        self._last_lr[copy] = lr
        if self.idx2name.get(index, str(index)).endswith(("gamma", "beta", "bias")):
            names, attrs = ("multi_sgd_update", "multi_sgd_mom_update"), {}
        else:
            names, attrs = ("_multi_lars_update", "_multi_lars_mom_update"), {"eta": self.eta, "eps": self.eps}
        if state is None:
            self._step(names[0], weight, grad, lr=lr, wd=wd, **attrs, **self._common())
        else:
            self._step(names[1], weight, grad, state, lr=lr, wd=wd, momentum=momentum, **attrs, **self._common())


@register
class LAMB(Adam):
    """Adam with rates by the ratio of norms (You et al., 2019)."""

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-6, lower_bound=None, upper_bound=None, bias_correction=True, **kwargs):
        super().__init__(learning_rate, beta1, beta2, epsilon, **kwargs)
        self.bias_correction = bias_correction
        self.bounds = {"lower_bound": -1 if lower_bound is None else lower_bound, "upper_bound": -1 if upper_bound is None else upper_bound}

    def step_one(self, index, weight, grad, state, lr, wd, t):
        self._step("_multi_lamb_step", weight, grad, *state, lr=lr, wd=wd, t=t, bias_correction=self.bias_correction, **self.bounds,
                   **self._moments(), **self._common())


@register
class SGLD(Optimizer):
    """Langevin dynamics: noise in every update."""

    def step_one(self, index, weight, grad, state, lr, wd, t):
        self._step("_multi_sgld_update", weight, grad, lr=lr, wd=wd, **self._common())


@register
class DCASGD(Optimizer):
    """SGD that compensates delays (Zheng et al., 2016)."""

    def __init__(self, momentum=0.0, lamda=0.04, **kwargs):
        super().__init__(**kwargs)
        self.momentum, self.lamda = momentum, lamda

    def create_state(self, index, weight):
        return (_zeros(weight) if self.momentum else None), weight.copy()

    def step_one(self, index, weight, grad, state, lr, wd, t):
        momentum, previous = state
        more = {"momentum": self.momentum, "lamda": self.lamda, **self._common()}
        if momentum is None:
            self._step("_multi_dcasgd_update", weight, grad, previous, lr=lr, wd=wd, **more)
        else:
            self._step("_multi_dcasgd_mom_update", weight, grad, momentum, previous, lr=lr, wd=wd, **more)
