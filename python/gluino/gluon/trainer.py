"""Trainer: applies an optimizer to parameters after backward."""
import copy

from .. import _core, autograd, ndarray as nd, optimizer as opt
from ..context import current_context
from ..kvstore import KVStore, KVStoreBase, create as create_store
from ..kvstore.dist import DistKVStore
from .parameter import Parameter
from .parameter_dict import ParameterDict

__all__ = ["Trainer"]


class Trainer:
    """Updates parameters with an optimizer; gradients of several contexts are summed first."""

    def __init__(self, params, optimizer, optimizer_params=None, kvstore="device", compression_params=None, update_on_kvstore=None):
        if isinstance(params, (dict, ParameterDict)):
            params = [params[key] for key in sorted(params.keys())] if isinstance(params, dict) else list(params.values())
        if not isinstance(params, (list, tuple)):
            raise ValueError(f"First argument must be a list or dict of Parameters, got {type(params)}.")
        for parameter in params:
            if not isinstance(parameter, Parameter):
                raise ValueError(f"First argument must be a list or dict of Parameters, got list of {type(parameter)}.")
        self._params = list(params)
        optimizer_params = dict(optimizer_params or {})
        self._scale = float(optimizer_params.get("rescale_grad", 1.0))
        if isinstance(optimizer, opt.Optimizer):
            if optimizer_params:
                raise AssertionError("optimizer_params must be None if optimizer is an instance of Optimizer instead of str")
            self._optimizer = optimizer
        else:
            self._optimizer = opt.create(optimizer, **optimizer_params)
        self._optimizer.param_dict = dict(enumerate(self._params))
        self._optimizer.idx2name = {i: p.name for i, p in enumerate(self._params)}
        self._updaters = []
        for parameter in self._params:
            parameter._set_trainer(self)
        self._compression_params, self._kvstore_type, self._update_on_kvstore = compression_params, kvstore, update_on_kvstore
        self._kvstore_params = {"kvstore": kvstore, "update_on_kvstore": update_on_kvstore}
        self._kvstore = self._given_store(kvstore)
        self._shared = set()  # numbers of the parameters that have begun with the same values on all ranks
        self._exchange = None  # of gradients with other ranks
        if isinstance(self._kvstore, DistKVStore):
            self._exchange = self._kvstore.make_exchange(compression_params)
            self._share_first_values()
        elif compression_params is not None:
            raise NotImplementedError("Trainer: compression_params are for several ranks; use kvstore='dist_sync'")
        if update_on_kvstore and self._kvstore is not None and not self._kvstore.is_capable(KVStoreBase.OPTIMIZER):
            raise ValueError(f"Please set update_on_kvstore=False when training with {type(self._kvstore)}: it runs no optimizer")
        self._shared_start = False  # whether a store of the user's has given all workers the same values
        self._reset_kvstore()

    @staticmethod
    def _given_store(kvstore):
        """A store of the user's; the built-in ones have nothing to do in one process."""
        if isinstance(kvstore, str) and kvstore.lower() in KVStoreBase.kv_registry:
            return create_store(kvstore)
        if isinstance(kvstore, KVStoreBase) and (isinstance(kvstore, DistKVStore) or not isinstance(kvstore, KVStore)):
            return kvstore
        if isinstance(kvstore, str) and kvstore.startswith("dist"):
            return create_store(kvstore)
        return None

    @property
    def _contexts(self):
        return self._params[0].list_ctx() if self._params else [current_context()]

    # ---- by the names under which other libraries look and which they replace

    def _reset_kvstore(self):
        self._kv_initialized, self._distributed, self._params_to_init = False, None, list(self._params)

    def _init_kvstore(self):
        """Before the first step: the store is there already, and updates are made here, not on it."""
        self._update_on_kvstore, self._distributed = bool(self._update_on_kvstore), self._exchange is not None
        self._make_updaters(max((len(p._data or ()) for p in self._params), default=1) or 1)
        self._kv_initialized = True

    def _init_params(self):
        """Parameters that have got their values no longer wait."""
        self._params_to_init = [parameter for parameter in self._params_to_init if parameter._data is None]

    def _prepare(self, batch_size):
        self._check_and_rescale_grad(self._scale / float(batch_size))
        if not self._kv_initialized:
            self._init_kvstore()
        if self._params_to_init:
            self._init_params()

    def _check_and_rescale_grad(self, scale):
        self._optimizer.rescale_grad = scale

    def _make_updaters(self, count):
        while len(self._updaters) < count:
            self._updaters.append(opt.get_updater(self._optimizer))

    @property
    def _param2idx(self):
        return {parameter.name: i for i, parameter in enumerate(self._params)}

    @property
    def learning_rate(self):
        """The rate now."""
        return self._optimizer.learning_rate

    @property
    def optimizer(self):
        return self._optimizer

    def set_learning_rate(self, lr):
        """Changes the rate."""
        self._optimizer.set_learning_rate(lr)

    def step(self, batch_size, ignore_stale_grad=False):
        """One update; gradients are divided by batch_size."""
        self._prepare(batch_size)
        self._allreduce_grads()
        self._update(ignore_stale_grad)

    def allreduce_grads(self):
        """Sums the gradients of all contexts, and of all ranks."""
        self._allreduce_grads()

    def _allreduce_grads(self):
        if self._kvstore is not None and self._exchange is None:
            self._allreduce_by_store()
            return
        for parameter in self._params:
            if parameter.grad_req == "null" or len(parameter.list_ctx()) < 2:
                continue
            grads = [weight.grad for weight in parameter.list_data()]
            total = grads[0].copy()
            for grad in grads[1:]:
                total += grad.as_in_context(total.context)
            for grad in grads:
                grad[:] = total.as_in_context(grad.context)
        if self._exchange is not None:
            self._allreduce_over_ranks()

    def _learnt(self):
        return [(i, p) for i, p in enumerate(self._params) if p.grad_req != "null" and p._data is not None]

    def _share_first_values(self):
        """Parameters may get their values after the trainer was made: each takes rank 0's once, when it has one."""
        with autograd.pause():
            new = [(i, p) for i, p in enumerate(self._params) if p._data is not None and i not in self._shared]
            self._kvstore.share([p.list_data()[0] for _, p in new])
            for i, parameter in new:
                self._shared.add(i)
                for copied in parameter.list_data()[1:]:
                    copied[:] = parameter.list_data()[0].as_in_context(copied.context)

    def _allreduce_over_ranks(self):
        self._share_first_values()
        weights = [p.list_data() for _, p in self._learnt()]
        self._exchange.sum_over_ranks([copies[0] for copies in weights])
        for first, *others in weights:
            for weight in others:
                weight.grad[:] = first.grad.as_in_context(weight.context)
                weight._fresh_grad = first._fresh_grad

    def _allreduce_by_store(self):
        learnt = [(i, parameter) for i, parameter in enumerate(self._params) if parameter.grad_req != "null"]
        if not self._shared_start:
            for i, parameter in learnt:
                self._kvstore.broadcast(i, parameter.list_data()[0], parameter.list_data(), priority=-i)
            self._shared_start = True
        for i, parameter in learnt:
            self._kvstore.pushpull(i, parameter.list_grad(), priority=-i)

    def update(self, batch_size, ignore_stale_grad=False):
        """One update of gradients that are summed already."""
        self._prepare(batch_size)
        self._update(ignore_stale_grad)

    def _update(self, ignore_stale_grad=False):
        if not ignore_stale_grad:
            for parameter in self._params:
                self._check_fresh(parameter)
        fresh = []  # by context: (index, weight) of what backward has reached
        for i, parameter in enumerate(self._params):
            if parameter.grad_req == "null" or (parameter._data is None and ignore_stale_grad):
                continue
            for k, weight in enumerate(parameter.list_data()):
                while len(fresh) <= k:
                    fresh.append([])
                if weight._fresh_grad:
                    fresh[k].append((i, weight))
        self._make_updaters(len(fresh))
        with autograd.pause():
            for updater, reached in zip(self._updaters, fresh):
                updater([i for i, _ in reached], [weight.grad for _, weight in reached], [weight for _, weight in reached])
                for _, weight in reached:
                    weight._fresh_grad = False

    @staticmethod
    def _check_fresh(parameter):
        for weight in parameter.list_data() if parameter.grad_req != "null" else ():
            if not weight._fresh_grad:
                raise UserWarning(f"Gradient of Parameter `{parameter.name}` on context {weight.context} has not been updated by backward since "
                                  "the last step. If this step uses only some of the parameters, call it with ignore_stale_grad=True, "
                                  "which leaves the others as they are")

    def _weights(self):
        return {i: (p.name, tuple(p.shape or ())) for i, p in enumerate(self._params)}

    def save_states(self, fname):
        """Writes the optimizer's numbers and its states."""
        self._make_updaters(1)
        _core.write_files([(str(fname), self._updaters[0].get_states(True, self._weights()))])

    def load_states(self, fname, allow_pickle=False):
        """Reads what save_states wrote; a pickle, as MXNet's save_states writes it, only with allow_pickle: it runs the code that is in it."""
        data, what = _core.read_file(str(fname)), str(fname)
        contexts = max([len(p._data or ()) for p in self._params], default=1) or 1
        updaters = [opt.get_updater(copy.copy(self._optimizer)) for _ in range(contexts)]
        for k, updater in enumerate(updaters):
            updater.set_states(data, allow_pickle, what)
            updater.check_weights(self._weights(), what, complete=True)
            for i, parameter in enumerate(self._params):
                if i in updater.states and k < len(parameter._data or ()):
                    updater.states[i] = _moved(updater.states[i], parameter.list_ctx()[k])
        # Nothing has changed until here: what does not fit leaves the trainer as it was.
        self._updaters, self._optimizer = updaters, updaters[0].optimizer
        for updater in updaters:
            updater.optimizer = self._optimizer
        self._optimizer.param_dict = dict(enumerate(self._params))


def _moved(state, ctx):
    """A state on the device of its weight."""
    if isinstance(state, (tuple, list)):
        return type(state)(_moved(part, ctx) for part in state)
    return state.as_in_context(ctx) if isinstance(state, nd.NDArray) else state
