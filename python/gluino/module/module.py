"""Module: one symbol, bound and trained."""
import logging

from .. import _core, context as ctx_module, distributed, initializer as init_module, optimizer as opt
from ..kvstore import create as create_store
from ..kvstore.dist import DistKVStore
from ..model import load_checkpoint, save_checkpoint
from .base_module import BaseModule, _check_input_names, described
from .executor_group import DataParallelExecutorGroup

__all__ = ["Module"]


class Module(BaseModule):
    """A symbol with parameters, on one context or several."""

    def __init__(self, symbol, data_names=("data",), label_names=("softmax_label",), logger=logging, context=None, work_load_list=None,
                 fixed_param_names=None, state_names=None, group2ctxs=None, compression_params=None):
        super().__init__(logger)
        self._ranks = None  # the store that sums gradients over ranks, where there is one
        if compression_params is not None:
            raise NotImplementedError("Module: compression_params are not there; gluon.Trainer(..., kvstore='dist_sync') has them")
        self._context = list(context) if isinstance(context, (list, tuple)) else [context or ctx_module.current_context()]
        for each in self._context:
            each.engine_id
        if work_load_list is not None and len(work_load_list) != len(self._context):
            raise AssertionError(f"work_load_list has {len(work_load_list)} numbers for {len(self._context)} contexts")
        self._work_load_list, self._symbol = work_load_list, symbol
        inputs = symbol.list_arguments()
        self._data_names, self._state_names = list(data_names or []), list(state_names or [])
        self._label_names = [name for name in label_names or [] if name in inputs]
        _check_input_names(symbol, self._data_names, "data", True)
        _check_input_names(symbol, self._state_names, "state", True)
        self._fixed_param_names = list(fixed_param_names or [])
        self._param_names = [name for name in inputs if name not in self._data_names + self._label_names + self._state_names]
        self._aux_names, self._output_names = symbol.list_auxiliary_states(), symbol.list_outputs()
        self._exec_group = self._updater = self._optimizer = self._preloaded = self._preload_opt_states = None
        self._data_shapes = self._label_shapes = self._grad_req = None
        self._group2ctxs, self._compression_params, self._params_dirty, self._update_on_kvstore = group2ctxs, None, False, False

    @staticmethod
    def load(prefix, epoch, load_optimizer_states=False, **kwargs):
        """A module from a checkpoint."""
        symbol, args, states = load_checkpoint(prefix, epoch)
        module = Module(symbol, **kwargs)
        module._preloaded, module.params_initialized = (args, states), True
        module._preload_opt_states = f"{prefix}-{epoch:04d}.states" if load_optimizer_states else None
        return module

    def save_checkpoint(self, prefix, epoch, save_optimizer_states=False, remove_amp_cast=True):
        """Writes symbol and parameters."""
        save_checkpoint(prefix, epoch, self.symbol, *self.get_params())
        if save_optimizer_states:
            self.save_optimizer_states(f"{prefix}-{epoch:04d}.states")

    def set_params(self, arg_params, aux_params, allow_missing=False, force_init=True, allow_extra=False):
        """Takes over parameters; those that are missing keep their values where that is allowed."""
        if not allow_missing:
            return super().set_params(arg_params, aux_params, allow_missing, force_init, allow_extra)
        self._need(bind=True)
        self._exec_group.set_params(arg_params, aux_params, allow_extra=allow_extra)
        self.params_initialized = True

    # ---- what it takes and gives

    @property
    def data_names(self):
        """Names of the inputs."""
        return self._data_names

    @property
    def label_names(self):
        """Names of the labels."""
        return self._label_names

    @property
    def output_names(self):
        """Names of the outputs."""
        return self._output_names

    @property
    def data_shapes(self):
        """Descriptions of the inputs."""
        self._need(bind=True)
        return self._data_shapes

    @property
    def label_shapes(self):
        """Descriptions of the labels."""
        self._need(bind=True)
        return self._label_shapes

    @property
    def output_shapes(self):
        """[(name, shape)] of the outputs."""
        self._need(bind=True)
        return self._exec_group.get_output_shapes()

    # ---- binding

    def bind(self, data_shapes, label_shapes=None, for_training=True, inputs_need_grad=False, force_rebind=False, shared_module=None, grad_req="write"):
        """Makes arrays for these input shapes."""
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        kept = self.get_params() if self.params_initialized and self._exec_group is not None else None
        self._data_shapes, self._label_shapes = described(data_shapes), described(label_shapes)
        self.for_training, self.inputs_need_grad, self._grad_req = for_training, inputs_need_grad, grad_req
        shared = shared_module._exec_group if shared_module is not None else None
        self._exec_group = DataParallelExecutorGroup(
            self.symbol, self._context, self._work_load_list, self._data_shapes, self._label_shapes, self._param_names, for_training, inputs_need_grad,
            shared, self.logger, self._fixed_param_names, grad_req, self._state_names)
        self.binded = True
        if shared_module is not None:
            self.params_initialized = shared_module.params_initialized
            if shared_module.optimizer_initialized:
                self.borrow_optimizer(shared_module)
        if kept is not None:
            self._exec_group.set_params(*kept, allow_extra=True)
        elif self._preloaded:
            self.init_params(None, force_init=True)

    def reshape(self, data_shapes, label_shapes=None):
        """Other input shapes, with the same parameters."""
        self._need(bind=True)
        self._data_shapes, self._label_shapes = described(data_shapes), described(label_shapes)
        self._exec_group.reshape(self._data_shapes, self._label_shapes)

    # ---- parameters

    def init_params(self, initializer=init_module.Uniform(0.01), arg_params=None, aux_params=None, allow_missing=False, force_init=False, allow_extra=False):
        """First values: given ones, else the initialiser's."""
        if self.params_initialized and not force_init:
            return
        self._need(bind=True)
        initializer = init_module.create(initializer)
        if self._preloaded and arg_params is None:
            arg_params, aux_params = self._preloaded
        attrs, group = self.symbol.attr_dict(), self._exec_group
        for names, arrays, given in ((self._param_names, group.param_arrays, arg_params), (self._aux_names, group.aux_arrays, aux_params)):
            for name, copies in zip(names, arrays):
                if given is not None and name in given:
                    if given[name].shape != copies[0].shape:
                        raise ValueError(f"parameter '{name}' has shape {given[name].shape}, but {copies[0].shape} is needed")
                    copies[0][:] = given[name].as_in_context(copies[0].context)
                elif given and not allow_missing:
                    raise RuntimeError(f"{name} is not presented")
                elif initializer is not None:
                    initializer(init_module.InitDesc(name, attrs.get(name), global_init=initializer), copies[0])
                for copy in copies[1:]:
                    copies[0].copyto(copy)
        self.params_initialized = True

    # ---- by the names under which other libraries look: the values as they are now, None before there are any

    @property
    def _arg_params(self):
        return self.get_params()[0] if self.binded and self.params_initialized else self._preloaded and self._preloaded[0]

    @_arg_params.setter
    def _arg_params(self, values):
        self._take(values, self._preloaded and self._preloaded[1])

    @property
    def _aux_params(self):
        return self.get_params()[1] if self.binded and self.params_initialized else self._preloaded and self._preloaded[1]

    @_aux_params.setter
    def _aux_params(self, values):
        self._take(self._preloaded and self._preloaded[0], values)

    def _take(self, args, states):
        self._preloaded = None if args is None and states is None else (args or {}, states or {})
        if self.binded and self._preloaded:
            self._exec_group.set_params(*self._preloaded, allow_extra=True)

    @property
    def _kvstore(self):
        return self._ranks

    @_kvstore.setter
    def _kvstore(self, store):
        self._ranks = store

    def _sync_params_from_devices(self):
        """get_params() reads the devices' arrays, which are the only ones."""

    def _reset_bind(self):
        """Nothing is bound any more; the parameters' values are kept."""
        if self.binded and self.params_initialized:
            self._preloaded = self.get_params()
        self.binded, self._exec_group, self._data_shapes, self._label_shapes = False, None, None, None

    def get_params(self):
        """(arguments, auxiliary states), copied."""
        self._need(bind=True, params=True)
        args, states = {}, {}
        self._exec_group.get_params(args, states)
        return args, states

    # ---- training

    def init_optimizer(self, kvstore="local", optimizer="sgd", optimizer_params=(("learning_rate", 0.01),), force_init=False):
        """Gets ready to update."""
        self._need(bind=True, params=True)
        if self.optimizer_initialized and not force_init:
            return
        store = create_store(kvstore) if isinstance(kvstore, str) and kvstore.startswith("dist") else kvstore
        self._ranks = store if isinstance(store, DistKVStore) else None
        if isinstance(optimizer, str):
            params = dict(optimizer_params)
            params.setdefault("rescale_grad", 1.0 / (self._exec_group.batch_size * (self._ranks.num_workers if self._ranks else 1)))
            optimizer = opt.create(optimizer, sym=self.symbol, param_idx2name=dict(enumerate(self._param_names)), **params)
        self._optimizer, self._updater = optimizer, opt.get_updater(optimizer)
        self.optimizer_initialized = True
        if self._ranks is not None:
            self._ranks.share([weights[0] for weights in self._exec_group.param_arrays])
            for first, *copies in self._exec_group.param_arrays:
                for copy in copies:
                    first.copyto(copy)
        if self._preload_opt_states:
            self.load_optimizer_states(self._preload_opt_states)
            self._preload_opt_states = None

    def borrow_optimizer(self, shared_module):
        """Updates with another module's optimizer and states."""
        if not shared_module.optimizer_initialized:
            raise AssertionError("the other module has no optimizer: call its init_optimizer() first")
        self._optimizer, self._updater, self.optimizer_initialized = shared_module._optimizer, shared_module._updater, True
        self._ranks = shared_module._ranks

    def forward(self, data_batch, is_train=None):
        """Runs a batch; other shapes bind again with the same parameters."""
        self._need(bind=True, params=True)
        now = [item.shape for item in self._data_shapes]
        given = [value.shape for value in data_batch.data]
        if now != given:
            data = getattr(data_batch, "provide_data", None) or [_reshaped(item, shape) for item, shape in zip(self._data_shapes, given)]
            labels = getattr(data_batch, "provide_label", None) or \
                [_reshaped(item, value.shape) for item, value in zip(self._label_shapes, getattr(data_batch, "label", None) or [])]
            if [item.shape for item in described(data)] != given:
                data = [_reshaped(item, shape) for item, shape in zip(self._data_shapes, given)]
            self.reshape(data, labels)
        self._exec_group.forward(data_batch, is_train)

    def backward(self, out_grads=None):
        """Gradients of the last forward."""
        self._need(bind=True, params=True)
        self._exec_group.backward(out_grads)

    def update(self):
        """Updates parameters with their gradients, summed over the contexts and ranks."""
        self._need(True, True, True)
        group, reached = self._exec_group, []
        for i, (weights, grads) in enumerate(zip(group.param_arrays, group.grad_arrays)):
            if grads[0] is not None:
                total = grads[0] if len(grads) == 1 else sum((g.as_in_context(grads[0].context) for g in grads[1:]), grads[0])
                reached.append((i, total if self._ranks is None else distributed.all_reduce(total), weights))
        self._updater([i for i, _, _ in reached], [grad for _, grad, _ in reached], [weights[0] for _, _, weights in reached])
        for _, _, weights in reached:
            for copy in weights[1:]:
                weights[0].copyto(copy)

    def get_outputs(self, merge_multi_context=True):
        """Outputs of the last forward."""
        self._need(bind=True, params=True)
        return self._exec_group.get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context=True):
        """Gradients of the inputs."""
        self._need(bind=True, params=True)
        return self._exec_group.get_input_grads(merge_multi_context)

    def get_states(self, merge_multi_context=True):
        """Values of the inputs in state_names."""
        self._need(bind=True, params=True)
        return self._exec_group.get_states(merge_multi_context)

    def set_states(self, states=None, value=None):
        """Writes the inputs in state_names."""
        self._need(bind=True, params=True)
        self._exec_group.set_states(states, value)

    def update_metric(self, eval_metric, labels, pre_sliced=False):
        """Adds the last batch to a metric."""
        self._exec_group.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon):
        """Watches the executors."""
        self._need(bind=True)
        self._exec_group.install_monitor(mon)

    def prepare(self, data_batch, sparse_row_id_fn=None):
        """Before a batch: nothing is to be fetched, parameters are here."""
        self._need(bind=True)

    def save_optimizer_states(self, fname):
        """Writes the optimizer's states."""
        self._need(optimizer=True)
        _core.write_files([(str(fname), self._updater.get_states())])

    def load_optimizer_states(self, fname, allow_pickle=False):
        """Reads the optimizer's states; a pickle, which runs the code that is in it, only with allow_pickle."""
        self._need(optimizer=True)
        self._updater.set_states(_core.read_file(str(fname)), allow_pickle, str(fname))
        weights = {i: (name, copies[0].shape) for i, (name, copies) in enumerate(zip(self._param_names, self._exec_group.param_arrays))}
        self._updater.check_weights(weights, str(fname))


def _reshaped(item, shape):
    return type(item)(item.name, shape, item.dtype, item.layout)
