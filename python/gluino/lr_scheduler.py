"""Learning rates that change with the number of updates. Their formulas are the library's (src/gluon/optimizers/lr_scheduler.cc); these classes
remember their place, as MXNet's do: base_lr is the rate of now, and may be set."""
from . import _core

__all__ = ["LRScheduler", "FactorScheduler", "MultiFactorScheduler", "PolyScheduler", "CosineScheduler"]


class LRScheduler:
    """Starts with a warm-up, linear or constant, then follows the subclass."""

    def __init__(self, base_lr=0.01, warmup_steps=0, warmup_begin_lr=0, warmup_mode="linear"):
        if warmup_begin_lr > base_lr:
            raise ValueError("Base lr has to be higher than warmup_begin_lr")
        if warmup_steps < 0:
            raise ValueError("Warmup steps has to be positive or 0")
        if warmup_mode not in ("linear", "constant"):
            raise ValueError("Supports only linear and constant modes of warmup")
        self.base_lr, self.warmup_final_lr = base_lr, base_lr
        self.warmup_steps, self.warmup_begin_lr, self.warmup_mode = warmup_steps, warmup_begin_lr, warmup_mode

    def get_warmup_lr(self, num_update):
        """The rate before the warm-up ends."""
        return _core.lr_warm_up(self.warmup_begin_lr, self.warmup_final_lr, self.warmup_steps, self.warmup_mode, num_update)

    def __call__(self, num_update):
        raise NotImplementedError("__call__ method must be overridden.")


class FactorScheduler(LRScheduler):
    """Multiplies the rate by `factor` every `step` updates."""

    def __init__(self, step, factor=1, stop_factor_lr=1e-8, base_lr=0.01, warmup_steps=0, warmup_begin_lr=0, warmup_mode="linear"):
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if step < 1:
            raise ValueError("Schedule step must be greater or equal than 1 round")
        if factor > 1.0:
            raise ValueError("Factor must be no more than 1 to make lr reduce")
        self.step, self.factor, self.stop_factor_lr, self.count = step, factor, stop_factor_lr, 0

    def __call__(self, num_update):
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        self.base_lr, self.count = _core.lr_after_factors(self.base_lr, self.count, num_update, self.step, self.factor, self.stop_factor_lr)
        return self.base_lr


class MultiFactorScheduler(LRScheduler):
    """Multiplies the rate by `factor` at given numbers of updates."""

    def __init__(self, step, factor=1, base_lr=0.01, warmup_steps=0, warmup_begin_lr=0, warmup_mode="linear"):
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if not isinstance(step, list) or not step:
            raise AssertionError("step is a list of at least one number")
        if any(b <= a for a, b in zip(step, step[1:])):
            raise ValueError("Schedule step must be an increasing integer list")
        if step[0] < 1:
            raise ValueError("Schedule step must be greater or equal than 1 round")
        if factor > 1.0:
            raise ValueError("Factor must be no more than 1 to make lr reduce")
        self.step, self.factor, self.cur_step_ind, self.count = step, factor, 0, 0

    def __call__(self, num_update):
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        self.base_lr, self.cur_step_ind = _core.lr_after_steps(self.base_lr, self.cur_step_ind, num_update, self.step, self.factor)
        self.count = self.step[self.cur_step_ind - 1] if self.cur_step_ind else 0
        return self.base_lr


class _Descent(LRScheduler):
    """From base_lr to final_lr in max_update updates."""

    def __init__(self, max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode):
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if not isinstance(max_update, int) or max_update < 1:
            raise ValueError("maximum number of updates must be strictly positive")
        self.max_update, self.final_lr, self.base_lr_orig = max_update, final_lr, base_lr
        self.max_steps = max_update - warmup_steps

    def __call__(self, num_update):
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        if num_update <= self.max_update:
            done = (num_update - self.warmup_steps) / self.max_steps
            self.base_lr = self._descended(done)
        return self.base_lr


class PolyScheduler(_Descent):
    """(1 - done) ** pwr."""

    def __init__(self, max_update, base_lr=0.01, pwr=2, final_lr=0, warmup_steps=0, warmup_begin_lr=0, warmup_mode="linear"):
        super().__init__(max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.power = pwr

    def _descended(self, done):
        return _core.lr_poly_descent(self.base_lr_orig, self.final_lr, done, self.power)


class CosineScheduler(_Descent):
    """Half a cosine."""

    def __init__(self, max_update, base_lr=0.01, final_lr=0, warmup_steps=0, warmup_begin_lr=0, warmup_mode="linear"):
        super().__init__(max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode)

    def _descended(self, done):
        return _core.lr_cosine_descent(self.base_lr_orig, self.final_lr, done)
