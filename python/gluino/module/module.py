"""Module: one symbol, bound and trained."""
import logging

from .. import _core, context as ctx_module, initializer as init_module, io as mx_io, optimizer as opt
from ..executor import Executor
from ..model import load_checkpoint, save_checkpoint
from .base_module import BaseModule

__all__ = ["Module"]


def _described(items):
    return [item if isinstance(item, mx_io.DataDesc) else mx_io.DataDesc(*item) for item in items or []]


class Module(BaseModule):
    """A symbol with parameters, on one context."""

    def __init__(self, symbol, data_names=("data",), label_names=("softmax_label",), logger=logging, context=None, work_load_list=None,
                 fixed_param_names=None, state_names=None, group2ctxs=None, compression_params=None):
        super().__init__(logger)
        if isinstance(context, (list, tuple)):
            context = context[0]
        self.symbol, self._context = symbol, context or ctx_module.current_context()
        self._context.engine_id
        inputs = symbol.list_arguments()
        self._data_names = list(data_names or [])
        self._label_names = [name for name in label_names or [] if name in inputs]
        for name in self._data_names:
            if name not in inputs:
                raise ValueError(f"You created Module with Module(..., data_names={self._data_names}) but input with name '{name}' is not found in "
                                 f"symbol.list_arguments(). Did you mean one of:\n\t" + "\n\t".join(inputs))
        self._fixed = list(fixed_param_names or [])
        self._param_names = [name for name in inputs if name not in self._data_names + self._label_names]
        self._aux_names, self.output_names = symbol.list_auxiliary_states(), symbol.list_outputs()
        self._exec, self._updater, self._preloaded = None, None, None

    @staticmethod
    def load(prefix, epoch, load_optimizer_states=False, **kwargs):
        """A module from a checkpoint."""
        symbol, args, states = load_checkpoint(prefix, epoch)
        module = Module(symbol, **kwargs)
        module._preloaded = args, states
        module._states_file = f"{prefix}-{epoch:04d}.states" if load_optimizer_states else None
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
        self._exec.copy_params_from(arg_params, aux_params, allow_extra_params=allow_extra)
        self.params_initialized = True

    _symbol = property(lambda self: self.symbol)
    data_names = property(lambda self: self._data_names)
    label_names = property(lambda self: self._label_names)
    data_shapes = property(lambda self: self._data_shapes)
    label_shapes = property(lambda self: self._label_shapes)
    output_shapes = property(lambda self: [(n, o.shape) for n, o in zip(self.output_names, self.get_outputs())])

    def bind(self, data_shapes, label_shapes=None, for_training=True, inputs_need_grad=False, force_rebind=False, shared_module=None, grad_req="write"):
        """Makes arrays for these input shapes."""
        if self.binded and not force_rebind:
            return
        kept = self.get_params() if self.params_initialized and self._exec is not None else None
        self._data_shapes, self._label_shapes = _described(data_shapes), _described(label_shapes)
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        requests = {name: grad_req if for_training and name not in self._fixed else "null" for name in self._param_names}
        requests.update({name: grad_req if inputs_need_grad else "null" for name in self._data_names})
        shapes = {d.name: d.shape for d in self._data_shapes + self._label_shapes if d.name in self.symbol.list_arguments()}
        types = {d.name: d.dtype for d in self._data_shapes if d.dtype is not None}
        self._exec = Executor.allocate(self.symbol, self._context, requests, types, shapes)
        if shared_module is not None:
            self._share(shared_module)
        self.binded = True
        if kept is not None:
            self._exec.copy_params_from(*kept, allow_extra_params=True)
        elif self._preloaded:
            self.init_params(None)

    def _share(self, other):
        """Uses the arrays of another module's parameters."""
        own, theirs = self._exec, other._exec
        self._exec = Executor(self.symbol, self._context, {**own.arg_dict, **{n: theirs.arg_dict[n] for n in self._param_names if n in theirs.arg_dict}},
                              {**own.grad_dict, **{n: theirs.grad_dict[n] for n in self._param_names if n in theirs.grad_dict}},
                              {n: "write" if g is not None else "null" for n, g in own.grad_dict.items()},
                              {**own.aux_dict, **{n: a for n, a in theirs.aux_dict.items() if n in own.aux_dict}})
        self.params_initialized = other.params_initialized

    def init_params(self, initializer=init_module.Uniform(0.01), arg_params=None, aux_params=None, allow_missing=False, force_init=False, allow_extra=False):
        """First values: given ones, else the initialiser's."""
        if self.params_initialized and not force_init:
            return
        self._need(bind=True)
        if self._preloaded and arg_params is None:
            arg_params, aux_params = self._preloaded
        attrs = self.symbol.attr_dict()
        for names, arrays, given in ((self._param_names, self._exec.arg_dict, arg_params), (self._aux_names, self._exec.aux_dict, aux_params)):
            for name in names:
                if given is not None and name in given:
                    if given[name].shape != arrays[name].shape:
                        raise ValueError(f"parameter '{name}' has shape {given[name].shape}, but {arrays[name].shape} is needed")
                    arrays[name][:] = given[name]
                elif given and not allow_missing:
                    raise RuntimeError(f"{name} is not presented")
                elif initializer is not None:
                    initializer(init_module.InitDesc(name, attrs.get(name)), arrays[name])
        self.params_initialized = True

    def get_params(self):
        """(arguments, auxiliary states), copied."""
        self._need(bind=True, params=True)
        return {n: self._exec.arg_dict[n].copy() for n in self._param_names}, {n: a.copy() for n, a in self._exec.aux_dict.items()}

    def init_optimizer(self, kvstore="local", optimizer="sgd", optimizer_params=(("learning_rate", 0.01),), force_init=False):
        """Gets ready to update."""
        self._need(bind=True, params=True)
        if self.optimizer_initialized and not force_init:
            return
        if isinstance(optimizer, str):
            params = dict(optimizer_params)
            params.setdefault("rescale_grad", 1.0 / self._data_shapes[0].shape[0])
            optimizer = opt.create(optimizer, sym=self.symbol, param_idx2name=dict(enumerate(self._param_names)), **params)
        self._optimizer, self._updater = optimizer, opt.get_updater(optimizer)
        self.optimizer_initialized = True
        if getattr(self, "_states_file", None):
            self.load_optimizer_states(self._states_file)

    def forward(self, data_batch, is_train=None):
        """Runs a batch; other shapes bind again with the same parameters."""
        self._need(bind=True, params=True)
        inputs = dict(zip(self._data_names, data_batch.data))
        labels = data_batch.label or []
        inputs.update({name: value for name, value in zip([d.name for d in self._label_shapes] or self._label_names, labels) if name in self._exec.arg_dict})
        if any(value.shape != self._exec.arg_dict[name].shape for name, value in inputs.items()):
            self._exec = self._exec.reshape(**{name: value.shape for name, value in inputs.items()})
        self._exec.forward(self.for_training if is_train is None else is_train, **{n: v.as_in_context(self._context) for n, v in inputs.items()})

    def backward(self, out_grads=None):
        """Gradients of the last forward."""
        self._need(bind=True, params=True)
        self._exec.backward(out_grads)

    def update(self):
        """Updates parameters with their gradients."""
        self._need(True, True, True)
        reached = [(i, name) for i, name in enumerate(self._param_names) if self._exec.grad_dict.get(name) is not None]
        self._updater([i for i, _ in reached], [self._exec.grad_dict[name] for _, name in reached], [self._exec.arg_dict[name] for _, name in reached])

    def get_outputs(self, merge_multi_context=True):
        """Outputs of the last forward."""
        return self._exec.outputs

    def get_input_grads(self, merge_multi_context=True):
        """Gradients of the inputs."""
        if not self.inputs_need_grad:
            raise AssertionError("bind with inputs_need_grad=True first")
        return [self._exec.grad_dict[name] for name in self._data_names]

    def update_metric(self, eval_metric, labels, pre_sliced=False):
        """Adds the last batch to a metric."""
        eval_metric.update(labels, self.get_outputs())

    def install_monitor(self, mon):
        """Watches the executor."""
        mon.install(self._exec)

    def save_optimizer_states(self, fname):
        """Writes the optimizer's states."""
        _core.write_files([(str(fname), self._updater.get_states())])

    def load_optimizer_states(self, fname, allow_pickle=False):
        """Reads the optimizer's states; a pickle, which runs the code that is in it, only with allow_pickle."""
        self._updater.set_states(_core.read_file(str(fname)), allow_pickle, str(fname))
        self._updater.check_weights({i: (name, self._exec.arg_dict[name].shape) for i, name in enumerate(self._param_names)}, str(fname))

    def reshape(self, data_shapes, label_shapes=None):
        """Other input shapes."""
        self.bind(data_shapes, label_shapes, self.for_training, self.inputs_need_grad, force_rebind=True)


