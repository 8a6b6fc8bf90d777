"""The optimizers: each names its update operator, or writes the update with operators."""
import math

import numpy as _np

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

    def __init__(self, learning_rate=0.01, momentum=0.0, lazy_update=True, **kwargs):
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

    def __init__(self, learning_rate=0.01, momentum=0.0, **kwargs):
        super().__init__(learning_rate, momentum, **kwargs)

    def step_one(self, index, weight, grad, state, lr, wd, t):
        if state is None:
            self._step("multi_sgd_update", weight, grad, lr=lr, wd=wd, **self._common())
        else:
            self._step("_multi_nag_mom_update", weight, grad, state, lr=lr, wd=wd, momentum=self.momentum, **self._common())


@register
class Signum(SGD):
    """The sign of the momentum (Bernstein et al., 2018)."""

    def __init__(self, learning_rate=0.01, momentum=0.9, wd_lh=0.0, **kwargs):
        super().__init__(learning_rate, momentum, **kwargs)
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

    def _bias_correction(self, t):
        return math.sqrt(1 - self.beta2**t) / (1 - self.beta1**t)

    def step_one(self, index, weight, grad, state, lr, wd, t):
        lr *= self._bias_correction(t)
        self._step("_multi_adam_update", weight, grad, *state, lr=lr, wd=wd, beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon, **self._common())


@register
class AdamW(Adam):
    """Adam with the weight decay outside of the moments (Loshchilov and Hutter, 2017)."""

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-6, correct_bias=True, **kwargs):
        super().__init__(learning_rate, beta1, beta2, epsilon, **kwargs)
        self.correct_bias = correct_bias

    def step_one(self, index, weight, grad, state, lr, wd, t):
        eta = lr * (self._bias_correction(t) if self.correct_bias else 1.0)  # a factor of the decay too
        scale = nd.array([self.rescale_grad], ctx=weight.context)
        nd.contrib.adamw_update(weight, grad, *state, scale, out=weight, lr=1, eta=eta, wd=wd, beta1=self.beta1, beta2=self.beta2,
                                epsilon=self.epsilon, clip_gradient=self.clip_gradient or -1)


@register
class AdaGrad(Optimizer):
    """AdaGrad (Duchi et al., 2011)."""

    def __init__(self, learning_rate=0.01, eps=1e-7, epsilon=None, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.float_stable_eps = eps if epsilon is None else epsilon

    def create_state(self, index, weight):
        return _zeros(weight)

    def step_one(self, index, weight, grad, history, lr, wd, t):
        grad = self._prepared(grad)
        history[:] += nd.square(grad)
        weight[:] -= lr * (grad / nd.sqrt(history + self.float_stable_eps) + wd * weight)


@register
class AdaDelta(Optimizer):
    """AdaDelta (Zeiler, 2012)."""

    def __init__(self, learning_rate=1.0, rho=0.90, epsilon=1e-5, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.rho, self.epsilon = rho, epsilon

    def create_state(self, index, weight):
        return _zeros(weight, 2)

    def step_one(self, index, weight, grad, state, lr, wd, t):
        grad, (squares, deltas) = self._prepared(grad), state
        squares[:] = self.rho * squares + (1 - self.rho) * nd.square(grad)
        delta = nd.sqrt(deltas + self.epsilon) / nd.sqrt(squares + self.epsilon) * grad
        deltas[:] = self.rho * deltas + (1 - self.rho) * nd.square(delta)
        weight[:] -= delta + wd * weight


@register
class Adamax(Optimizer):
    """Adam with the maximum norm."""

    def __init__(self, learning_rate=0.002, beta1=0.9, beta2=0.999, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2 = beta1, beta2

    def create_state(self, index, weight):
        return _zeros(weight, 2)

    def step_one(self, index, weight, grad, state, lr, wd, t):
        mean, norm = state
        grad = self._prepared(grad + wd * weight / self.rescale_grad)
        mean[:] = self.beta1 * mean + (1 - self.beta1) * grad
        norm[:] = nd.maximum(self.beta2 * norm, nd.abs(grad))
        weight[:] -= lr / (1 - self.beta1**t) * mean / (norm + 1e-8)


@register
class Nadam(Optimizer):
    """Adam with Nesterov's momentum (Dozat, 2016)."""

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, schedule_decay=0.004, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon, self.schedule_decay = beta1, beta2, epsilon, schedule_decay
        self.m_schedule = 1.0

    def create_state(self, index, weight):
        return _zeros(weight, 2)

    def step_one(self, index, weight, grad, state, lr, wd, t):
        mean, var = state
        grad = self._prepared(grad) + wd * weight
        now, after = (self.beta1 * (1.0 - 0.5 * 0.96 ** (step * self.schedule_decay)) for step in (t, t + 1))
        self.m_schedule *= now
        mean[:] = self.beta1 * mean + (1.0 - self.beta1) * grad
        var[:] = self.beta2 * var + (1.0 - self.beta2) * nd.square(grad)
        blended = (1.0 - now) * grad / (1.0 - self.m_schedule) + after * mean / (1.0 - self.m_schedule * after)
        weight[:] -= lr * blended / (nd.sqrt(var / (1.0 - self.beta2**t)) + self.epsilon)


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

    def __init__(self, learning_rate=0.01, beta1=0.6, beta2=0.999, epsilon=1e-8, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def create_state(self, index, weight):
        return _zeros(weight, 3)

    def step_one(self, index, weight, grad, state, lr, wd, t):
        self._step("_multi_ftml_update", weight, grad, *state, lr=lr, wd=wd, t=t, beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon,
                       rescale_grad=self.rescale_grad, clip_grad=self.clip_gradient or -1)


def _norm(x):
    return float(nd.sqrt(nd.sum(nd.square(x.astype("float32")))).asscalar())


@register
class LARS(SGD):
    """Rates by the ratio of norms (You et al., 2017)."""

    def __init__(self, learning_rate=0.01, momentum=0.0, lazy_update=True, eta=0.001, eps=0, momentum_correction=True, **kwargs):
        super().__init__(learning_rate, momentum, **kwargs)
        self.eta, self.eps, self.momentum_correction, self._last_lr = eta, eps, momentum_correction, {}

    def step_one(self, index, weight, grad, state, lr, wd, t):
        momentum, last = self.momentum, self._last_lr.get(index)
        if self.momentum_correction and last:
            momentum *= lr / last
        self._last_lr[index] = lr
        if not self.idx2name.get(index, str(index)).endswith(("gamma", "beta", "bias")):
            w, g = _norm(weight), _norm(grad) * self.rescale_grad
            if w > 0 and g > 0:
                lr *= self.eta * w / (g + wd * w + self.eps)
        if state is None:
            self._step("multi_sgd_update", weight, grad, lr=lr, wd=wd, **self._common())
        else:
            self._step("multi_sgd_mom_update", weight, grad, state, lr=lr, wd=wd, momentum=momentum, **self._common())


@register
class LAMB(Optimizer):
    """Adam with rates by the ratio of norms (You et al., 2019)."""

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-6, lower_bound=None, upper_bound=None, bias_correction=True, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon, self.bias_correction = beta1, beta2, epsilon, bias_correction
        self.bounds = {"lower_bound": -1 if lower_bound is None else lower_bound, "upper_bound": -1 if upper_bound is None else upper_bound}

    def create_state(self, index, weight):
        return _zeros(weight, 2)

    def step_one(self, index, weight, grad, state, lr, wd, t):
        g = nd.lamb_update_phase1(weight, grad, *state, t=t, beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon,
                                  bias_correction=self.bias_correction, wd=wd, **self._common())
        nd.lamb_update_phase2(weight, g, weight.norm(), g.norm(), lr=lr, out=weight, **self.bounds)


@register
class SGLD(Optimizer):
    """Langevin dynamics: noise in every update."""

    def step_one(self, index, weight, grad, state, lr, wd, t):
        noise = nd.random.normal(0, math.sqrt(lr), shape=weight.shape, dtype=_np.dtype(weight.dtype).name, ctx=weight.context)
        weight[:] += -lr / 2 * (self._prepared(grad) + wd * weight) + noise


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
        grad = self._prepared(grad)
        step = -lr * (grad + wd * weight + self.lamda * grad * grad * (weight - previous))
        if momentum is not None:
            momentum[:] = self.momentum * momentum + step
            step = momentum
        previous[:] = weight
        weight[:] += step
