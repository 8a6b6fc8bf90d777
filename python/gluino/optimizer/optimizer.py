"""Optimizer: how a gradient changes a weight. Updater: states by index."""
import contextlib

import numpy as _np

from .. import _register, ndarray as nd
from ..base import MXNetError
from . import states as states_file

__all__ = ["Optimizer", "Updater", "get_updater", "register", "create", "Test"]


class Optimizer:
    """The base: learning rates and weight decays per parameter, counts of updates."""

    opt_registry = {}

    def __init__(self, rescale_grad=1.0, param_idx2name=None, wd=0.0, clip_gradient=None, learning_rate=None, lr_scheduler=None, sym=None,
                 begin_num_update=0, multi_precision=False, param_dict=None, aggregate_num=0, use_fused_step=None):
        self.rescale_grad, self.wd, self.clip_gradient, self.multi_precision = rescale_grad, wd, clip_gradient, multi_precision
        self.lr_scheduler = lr_scheduler
        self.lr = 0.01 if learning_rate is None else learning_rate
        if lr_scheduler is not None and learning_rate is not None:
            lr_scheduler.base_lr = learning_rate
        self.begin_num_update = self.num_update = begin_num_update
        self._all_index_update_counts = {}  # by device: every copy of a parameter is updated once in a step
        self._set_current_context(0)
        self.idx2name, self.param_dict = dict(param_idx2name or {}), param_dict or {}
        self.lr_mult, self.wd_mult = {}, {}
        self.sym_info = (sym.attr_dict(), sym.list_arguments()) if sym is not None else ()
        self.set_lr_mult({})
        self.set_wd_mult({})

    @staticmethod
    def register(klass):
        """Makes an optimizer known by the lower-case name of its class."""
        Optimizer.opt_registry[klass.__name__.lower()] = klass
        return klass

    @staticmethod
    def create_optimizer(name, **kwargs):
        """An optimizer by its name."""
        try:
            return Optimizer.opt_registry[name.lower()](**kwargs)
        except KeyError:
            raise ValueError(f"Cannot find optimizer {name}; there are {', '.join(sorted(Optimizer.opt_registry))}") from None

    # ---- rates

    @property
    def learning_rate(self):
        """The rate now."""
        return self.lr_scheduler(self.num_update) if self.lr_scheduler is not None else self.lr

    def set_learning_rate(self, lr):
        """Changes the rate; a scheduler decides alone."""
        if self.lr_scheduler is not None:
            raise UserWarning("LRScheduler of the optimizer has already been defined. Note that set_learning_rate can mutate the value of the "
                              "learning rate of the optimizer only when the LRScheduler of the optimizer is undefined.")
        self.lr = lr

    def set_lr_scale(self, args_lrscale):
        """Raises: its heir is set_lr_mult."""
        raise DeprecationWarning("set_lr_scale is deprecated; use set_lr_mult")

    def set_lr_mult(self, args_lr_mult):
        """Factors of the rate by name or index."""
        self.lr_mult = {**self._from_symbol("__lr_mult__"), **args_lr_mult}

    def set_wd_mult(self, args_wd_mult):
        """Factors of the weight decay; biases and the like have none unless named."""
        self.wd_mult = {name: 0.0 for name in self.idx2name.values() if not name.endswith(("_weight", "_gamma"))}
        self.wd_mult.update(self._from_symbol("__wd_mult__"))
        self.wd_mult.update(args_wd_mult)

    def _from_symbol(self, key):
        if not self.sym_info:
            return {}
        attrs, names = self.sym_info
        return {name: float(attrs[name][key]) for name in names if key in attrs.get(name, {})}

    def _factor(self, index, kind):
        if index in self.param_dict:
            return getattr(self.param_dict[index], kind)
        table = getattr(self, kind)
        return table.get(index, table.get(self.idx2name.get(index), 1.0))

    def _get_lr(self, index):
        return self.learning_rate * self._factor(index, "lr_mult")

    def _get_wd(self, index):
        return self.wd * self._factor(index, "wd_mult")

    def _get_lrs(self, indices):
        return [self._get_lr(index) for index in indices]

    def _get_wds(self, indices):
        return [self._get_wd(index) for index in indices]

    def _set_current_context(self, device_id):
        self._index_update_count = self._all_index_update_counts.setdefault(device_id, {})

    def _update_count(self, index):
        for i in index if isinstance(index, (list, tuple)) else [index]:
            self._index_update_count[i] = self._index_update_count.get(i, self.begin_num_update) + 1
            self.num_update = max(self._index_update_count[i], self.num_update)

    # ---- updates of many weights at once

    _updates = None  # those that wait for other weights
    _narrow = ()  # float16 weights and their float32 copies, which these updates change

    def _run(self, updates):
        """Makes updates that waited for each other; a class that puts some into _updates defines it."""

    @contextlib.contextmanager
    def _together(self):
        """Updates are made at the end, all at once; each by itself for a class of the user, who may read the weight after it."""
        own = all(getattr(type(self), name).__module__.startswith(__package__) for name in ("step_one", "update", "update_multi_precision"))
        self._updates, self._narrow = ([] if own else None), []
        try:
            yield
            updates, self._updates = self._updates, None
            if updates:
                self._run(updates)
            if self._narrow:
                weights, copies = zip(*self._narrow)
                nd.amp_multicast(*copies, out=list(weights), num_outputs=len(copies))
        finally:
            self._updates, self._narrow = None, ()

    # ---- updates

    def create_state(self, index, weight):
        """What an update of this weight remembers."""
        return None

    def create_state_multi_precision(self, index, weight):
        """The same, with a float32 copy of a float16 weight."""
        if self.multi_precision and weight.dtype == _np.float16:
            copy = weight.astype("float32")
            return copy, self.create_state(index, copy)
        return self.create_state(index, weight)

    def update(self, index, weight, grad, state):
        """Changes the weight in place; lists update several."""
        if isinstance(index, (list, tuple)):
            for i, w, g, s in zip(index, weight, grad, state):
                self.update(i, w, g, s)
            return
        self._update_count(index)
        self.step_one(index, weight, grad, state, self._get_lr(index), self._get_wd(index), self._index_update_count[index])

    def step_one(self, index, weight, grad, state, lr, wd, t):
        """One update of one weight; t counts from 1."""
        raise NotImplementedError(f"{type(self).__name__} must define step_one or update")

    def update_multi_precision(self, index, weight, grad, state):
        """update(), on the float32 copy where there is one."""
        if isinstance(index, (list, tuple)):
            for i, w, g, s in zip(index, weight, grad, state):
                self.update_multi_precision(i, w, g, s)
            return
        if self.multi_precision and weight.dtype == _np.float16:
            copy, inner = state
            if self._updates is None:
                self.update(index, copy, grad.astype("float32"), inner)
                weight[:] = copy.astype("float16")
            else:
                self.update(index, copy, grad, inner)  # the operators convert the gradient
                self._narrow.append((weight, copy))
        else:
            self.update(index, weight, grad, state)

    def __getstate__(self):
        kept = self.__dict__.copy()
        kept["param_dict"] = {}
        return kept


register = Optimizer.register
create = Optimizer.create_optimizer


@register
class Test(Optimizer):
    """weight += gradient, for tests."""

    def create_state(self, index, weight):
        return nd.zeros(weight.shape, weight.context)

    def step_one(self, index, weight, grad, state, lr, wd, t):
        weight[:] = weight + grad.astype(weight.dtype) * self.rescale_grad
        state[:] = weight


class Updater:
    """Calls an optimizer and keeps its states by index."""

    def __init__(self, optimizer):
        self.optimizer, self.states, self.states_synced = optimizer, {}, {}
        self._shapes, self._loaded = {}, {}  # of the weights; whose states came from a file and have not been used yet

    def __call__(self, index, grad, weight):
        if not isinstance(index, (list, tuple)):
            index, grad, weight = [index], [grad], [weight]
        if weight:
            self.optimizer._set_current_context(weight[0].context.device_id)
        with self.optimizer._together():
            for i, g, w in zip(index, grad, weight):
                if i not in self.states:
                    self.states[i] = self.optimizer.create_state_multi_precision(i, w)
                    self._shapes[i] = w.shape
                elif i in self._loaded:
                    self._check_loaded(i, w)
                self.optimizer.update_multi_precision(i, w, g, self.states[i])

    def _check_loaded(self, index, weight):
        """Whether states of a file belong to this weight."""
        self.check_weights({index: (self._name_of(index), weight.shape)})
        if type(self.optimizer).__module__.startswith(__package__):  # a class of the user's may keep what it likes
            needed, given = _form(self.optimizer.create_state_multi_precision(index, weight)), _form(self.states[index])
            if given != needed:
                raise MXNetError(f"the states loaded for '{self._name_of(index)}' are {given}, but {type(self.optimizer).__name__} with its options "
                                 f"of now keeps {needed}")
        del self._loaded[index]
        self._shapes[index] = weight.shape

    def sync_state_context(self, state, context):
        """A state, or nested ones, on a context."""
        if isinstance(state, nd.NDArray):
            return state.as_in_context(context)
        if isinstance(state, (tuple, list)):
            return type(state)(self.sync_state_context(part, context) for part in state)
        return state

    def check_weights(self, weights, what="the states loaded", complete=False):
        """Raises where loaded states are those of other weights than these, (name, shape) by index; `complete`: there are no others."""
        for index, (name, shape) in weights.items():
            other, stored = self._loaded.get(index) or (None, None)
            if stored is not None and not _may_be_same(shape, stored):
                raise MXNetError(f"{what}: they belong to another network: parameter {index} was '{other}' of shape {stored}, here it is '{name}' of "
                                 f"shape {tuple(shape)}")
        there, described = set(self.states) | set(self._loaded), {index for index, stored in self._loaded.items() if stored}
        if complete and (there - set(weights) or (described and set(weights) - described)):
            raise MXNetError(f"{what}: they belong to another network, one of {len(there)} parameters; here there are {len(weights)}")

    def _name_of(self, index):
        return str(self.optimizer.idx2name.get(index, index))

    def get_states(self, dump_optimizer=False, weights=None):
        """The states, and the numbers of the optimizer, as bytes; `weights`: (name, shape) by index, of those that were updated by default."""
        if weights is None:
            weights = {**{i: stored for i, stored in self._loaded.items() if stored}, **{i: (self._name_of(i), s) for i, s in self._shapes.items()}}
        return states_file.dump(self.states, self.optimizer, weights, dump_optimizer)

    def set_states(self, states, allow_pickle=False, what="states"):
        """Takes over what get_states gave. Pickles, as MXNet's get_states gives them, run code when they are read: only with allow_pickle."""
        loaded, self.optimizer, weights = states_file.load(bytes(states), self.optimizer, what, allow_pickle)
        self.states, self._shapes = loaded, {}
        self._loaded = {**dict.fromkeys(loaded), **weights}


def _form(state):
    if isinstance(state, (tuple, list)):
        return tuple(_form(part) for part in state)
    return state.shape if isinstance(state, nd.NDArray) else type(state).__name__


def _may_be_same(shape, stored):
    """Whether both are one shape; extents of 0 or -1 are not known yet."""
    if not shape or not stored:
        return not shape or all(type(n) is int for n in stored)
    return len(shape) == len(stored) and all(a == b or a in (0, -1) or b in (0, -1) for a, b in zip(shape, stored))


def get_updater(optimizer):
    """An updater for this optimizer."""
    return Updater(optimizer)


__getattr__ = _register.elsewhere("gluino.optimizer")  # MXNet has all optimizers in this module
