"""DataParallelExecutorGroup: one executor per context, each with a part of the batch."""
import logging

from .. import ndarray as nd
from ..executor import Executor
from ..io import DataDesc
from .base_module import described

__all__ = ["DataParallelExecutorGroup"]


def _cut(extent, workload):
    """Slices of a batch, proportional to the work that each context takes."""
    total, ends, done = sum(workload), [0], 0
    for part in workload:
        done += part
        ends.append(round(extent * done / total))
    if any(a == b for a, b in zip(ends, ends[1:])):
        raise ValueError(f"Too many slices: a batch of {extent} cannot be divided over {len(workload)} contexts")
    return [slice(a, b) for a, b in zip(ends, ends[1:])]


_split_input_slice = _cut  # its name in mxnet.executor_manager


def _part(array, where, axis):
    if axis < 0 or (where.start == 0 and where.stop == array.shape[axis]):
        return array
    return nd.slice_axis(array, axis=axis, begin=where.start, end=where.stop)


class DataParallelExecutorGroup:
    """Binds a symbol on several contexts; parameters are the same on all."""

    def __init__(self, symbol, contexts, workload, data_shapes, label_shapes, param_names, for_training, inputs_need_grad, shared_group=None,
                 logger=logging, fixed_param_names=None, grad_req="write", state_names=None, group2ctxs=None):
        self.symbol, self.contexts, self.workload, self.logger = symbol, list(contexts), workload or [1] * len(contexts), logger
        self.param_names, self.fixed_param_names, self.state_names = list(param_names), list(fixed_param_names or []), list(state_names or [])
        self.arg_names, self.aux_names = symbol.list_arguments(), symbol.list_auxiliary_states()
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        data_names = [item.name for item in described(data_shapes)]
        self.grad_req = self._requests(grad_req, data_names)
        self.execs, self.slices = [], None
        self.bind_exec(data_shapes, label_shapes, shared_group)

    def _requests(self, grad_req, data_names):
        given = dict.fromkeys(self.arg_names, grad_req) if isinstance(grad_req, str) else \
            dict(zip(self.arg_names, grad_req)) if isinstance(grad_req, (list, tuple)) else {name: grad_req.get(name, "write") for name in self.arg_names}
        learnt = {name for name in self.param_names if name not in self.fixed_param_names}
        return {name: given[name] if self.for_training and (name in learnt or (name in data_names and self.inputs_need_grad)) else "null"
                for name in self.arg_names}

    # ---- binding

    def decide_slices(self, data_shapes):
        """Divides the batch over the contexts; gives the axis of the batch of each input."""
        axes = [DataDesc.get_batch_axis(getattr(item, "layout", "NCHW")) for item in data_shapes]
        for item, axis in zip(data_shapes, axes):
            if axis < 0:
                continue
            extent = item.shape[axis]
            if self.slices is not None and self.slices[-1].stop != extent:
                raise AssertionError(f"all data must have the same batch size: {self.slices[-1].stop}, but {item.name} has shape {item.shape}")
            self.slices = _cut(extent, self.workload)
        return axes

    def bind_exec(self, data_shapes, label_shapes, shared_group=None, reshape=False):
        """Makes the executors for these shapes; with the parameters of another group, or, when reshaping, those there are."""
        self.slices = None
        self.data_shapes, self.label_shapes = described(data_shapes), described(label_shapes) if label_shapes is not None else None
        self.data_axes = self.decide_slices(self.data_shapes)
        self.label_axes = self.decide_slices(self.label_shapes) if self.label_shapes else []
        self.batch_size = self.slices[-1].stop if self.slices else 0
        others = self.execs if reshape else shared_group.execs if shared_group is not None else [None] * len(self.contexts)
        self.execs = [self._bound(i, other) for i, other in enumerate(others)]
        self.data_names = [item.name for item in self.data_shapes]
        self.label_names = [item.name for item in self.label_shapes or []]
        self._collect()

    def _shapes_on(self, i):
        described_axes = [*zip(self.data_shapes, self.data_axes), *zip(self.label_shapes or [], self.label_axes)]
        return {item.name: tuple(self.slices[i].stop - self.slices[i].start if axis == place else extent for place, extent in enumerate(item.shape))
                for item, axis in described_axes if item.name in self.arg_names}

    def _bound(self, i, other):
        types = {item.name: item.dtype for item in self.data_shapes if item.dtype is not None and item.name in self.arg_names}
        made = Executor.allocate(self.symbol, self.contexts[i], self.grad_req, types, self._shapes_on(i))
        if other is None:
            return made
        shared = {name for name in self.param_names if name in other.arg_dict and other.arg_dict[name].shape == made.arg_dict[name].shape}
        return Executor(self.symbol, self.contexts[i], {n: other.arg_dict[n] if n in shared else a for n, a in made.arg_dict.items()},
                        {n: other.grad_dict[n] if n in shared and other.grad_dict.get(n) is not None else g for n, g in made.grad_dict.items()},
                        {n: self.grad_req[n] if g is not None else "null" for n, g in made.grad_dict.items()},
                        {n: other.aux_dict.get(n, a) for n, a in made.aux_dict.items()})

    def _collect(self):
        """Arrays by parameter, then by context."""
        self.param_arrays = [[e.arg_dict[name] for e in self.execs] for name in self.param_names]
        self.grad_arrays = [[e.grad_dict[name] for e in self.execs] for name in self.param_names] if self.for_training else None
        self.aux_arrays = [[e.aux_dict[name] for e in self.execs] for name in self.aux_names]
        self.state_arrays = [[e.arg_dict[name] for e in self.execs] for name in self.state_names]
        self.data_arrays = self._inputs(self.data_shapes)
        self.label_arrays = self._inputs(self.label_shapes) if self.label_shapes is not None else None
        self.input_grad_arrays = [[e.grad_dict[name] for e in self.execs] for name in self.data_names] if self.inputs_need_grad else []

    def _inputs(self, items):
        """By input, then by context: (rows of the batch, array)."""
        return [[(rows, e.arg_dict[item.name]) for rows, e in zip(self.slices or [], self.execs)] for item in items if item.name in self.arg_names]

    def reshape(self, data_shapes, label_shapes):
        """Other input shapes."""
        if described(data_shapes) != self.data_shapes or described(label_shapes) != (self.label_shapes or []):
            self.bind_exec(data_shapes, label_shapes, reshape=True)

    # ---- parameters

    def set_params(self, arg_params, aux_params, allow_extra=False):
        """Copies parameters to all contexts."""
        for executor in self.execs:
            executor.copy_params_from(arg_params, aux_params, allow_extra_params=allow_extra)

    def get_params(self, arg_params, aux_params):
        """Writes the parameters, means over the contexts, into dictionaries."""
        for target, names, arrays in ((arg_params, self.param_names, self.param_arrays), (aux_params, self.aux_names, self.aux_arrays)):
            for name, copies in zip(names, arrays):
                first = copies[0]
                total = first.copy() if len(copies) == 1 else sum((c.as_in_context(first.context) for c in copies[1:]), first) / len(copies)
                target[name] = total.astype(first.dtype)

    # ---- running

    def forward(self, data_batch, is_train=None):
        """Runs a batch."""
        is_train = self.for_training if is_train is None else is_train
        parts = [*zip(self.data_names, data_batch.data, self.data_axes)]
        if self.label_names and data_batch.label:
            parts += zip(self.label_names, data_batch.label, self.label_axes)
        for i, executor in enumerate(self.execs):
            inputs = {name: _part(value, self.slices[i], axis).as_in_context(self.contexts[i]) for name, value, axis in parts if name in executor.arg_dict}
            executor.forward(is_train, **inputs)

    def backward(self, out_grads=None):
        """Gradients of the last forward."""
        if not self.for_training:
            raise AssertionError("re-bind with for_training=True to run backward")
        out_grads = [] if out_grads is None else out_grads if isinstance(out_grads, (list, tuple)) else [out_grads]
        for i, executor in enumerate(self.execs):
            executor.backward([_part(grad, self.slices[i], 0).as_in_context(self.contexts[i]) for grad in out_grads] or None)

    def _merged(self, parts, axis=0):
        if len(parts) == 1:
            return parts[0]
        return nd.concat(*[part.as_in_context(parts[0].context) for part in parts], dim=axis)

    def get_outputs(self, merge_multi_context=True, begin=0, end=None):
        """Outputs of the last forward, joined or by context."""
        found = [[e.outputs[i] for e in self.execs] for i in range(begin, len(self.symbol.list_outputs()) if end is None else end)]
        return [self._merged(parts) for parts in found] if merge_multi_context else found

    def get_output_shapes(self):
        """[(name, shape of the whole batch)]."""
        shapes = {item.name: item.shape for item in [*self.data_shapes, *(self.label_shapes or [])] if item.name in self.arg_names}
        return list(zip(self.symbol.list_outputs(), self.symbol.infer_shape(**shapes)[1]))

    def get_input_grads(self, merge_multi_context=True):
        """Gradients of the inputs, joined or by context."""
        if not self.inputs_need_grad:
            raise AssertionError("bind with inputs_need_grad=True first")
        if not merge_multi_context:
            return self.input_grad_arrays
        return [self._merged(parts, max(axis, 0)) for parts, axis in zip(self.input_grad_arrays, self.data_axes)]

    def get_states(self, merge_multi_context=True):
        """States, joined or by context."""
        return [self._merged(parts) for parts in self.state_arrays] if merge_multi_context else self.state_arrays

    def set_states(self, states=None, value=None):
        """Writes states: arrays by context, or one number."""
        if (states is None) == (value is None):
            raise AssertionError("either states or value is needed, and not both")
        for k, arrays in enumerate(self.state_arrays):
            for i, array in enumerate(arrays):
                array[:] = value if states is None else states[k][i] if isinstance(states[k], (list, tuple)) else _part(states[k], self.slices[i], 0)

    def update_metric(self, eval_metric, labels, pre_sliced):
        """Adds the last batch to a metric."""
        for i, executor in enumerate(self.execs):
            if pre_sliced:
                mine = labels[i]
            else:
                axes = self.label_axes or [0] * len(labels or [])
                mine = [_part(label, self.slices[i], axis) for label, axis in zip(labels or [], [*axes, *[0] * len(labels or [])])]
            names = self.label_names if len(self.label_names) == len(mine) else [f"_{k}" for k in range(len(mine))]
            if eval_metric.label_names is None and eval_metric.output_names is None:
                eval_metric.update(mine, executor.outputs)
            else:
                eval_metric.update_dict(dict(zip(names, mine)), dict(zip(self.symbol.list_outputs(), executor.outputs)))

    def install_monitor(self, mon):
        """Watches the executors."""
        for executor in self.execs:
            mon.install(executor)
