"""What all modules share: fit, score, predict."""
import logging
import time
import warnings

from .. import metric as metrics
from .. import ndarray as nd
from ..initializer import Uniform
from ..io import DataDesc
from ..model import BatchEndParam

__all__ = ["BaseModule"]


def _listed(x):
    return list(x) if isinstance(x, (list, tuple)) else [x]


# ---- by the names under which modules of other libraries import them

_as_list = _listed


def _check_input_names(symbol, names, typename, throw):
    """Names that a module is given are arguments of its symbol; where they are not it is an error, or a warning without `throw`."""
    arguments = symbol.list_arguments()
    for name in names:
        if name in arguments:
            continue
        near = [argument for argument in arguments if not argument.endswith(("_weight", "_bias", "_gamma", "_beta"))]
        text = (f"You created Module with Module(..., {typename}_names={list(names)}) but input with name '{name}' is not found in "
                "symbol.list_arguments(). Did you mean one of:\n\t" + "\n\t".join(near))
        if throw:
            raise ValueError(text)
        warnings.warn(text, stacklevel=3)


def described(items):
    """Descriptions of inputs, from (name, shape) or DataDesc."""
    return [item if isinstance(item, DataDesc) else DataDesc(*item) for item in items or []]


def _parse_data_desc(data_names, label_names, data_shapes, label_shapes):
    """(descriptions of data, of labels or None): those that the names ask for."""
    found = []
    for what, names, items in (("data", data_names, data_shapes), ("label", label_names, label_shapes)):
        items = described(items)
        if items and sorted(item.name for item in items) != sorted(names):
            raise ValueError(f"{what}_shapes are given for {[item.name for item in items]}, but {what}_names are {list(names)}")
        found.append(items)
    return found[0], found[1] or None


class BaseModule:
    """The training loop over forward, backward and update."""

    def __init__(self, logger=logging):
        self.logger, self._symbol, self._total_exec_bytes = logger, None, 0
        self.binded = self.params_initialized = self.optimizer_initialized = self.for_training = self.inputs_need_grad = False

    # ---- what a module must define

    @property
    def symbol(self):
        """The symbol; None for modules that have none."""
        return self._symbol

    @property
    def data_names(self):
        """Names of the inputs."""
        raise NotImplementedError

    @property
    def output_names(self):
        """Names of the outputs."""
        raise NotImplementedError

    @property
    def data_shapes(self):
        """Descriptions of the inputs."""
        raise NotImplementedError

    @property
    def label_shapes(self):
        """Descriptions of the labels."""
        raise NotImplementedError

    @property
    def output_shapes(self):
        """[(name, shape)] of the outputs."""
        raise NotImplementedError

    def bind(self, data_shapes, label_shapes=None, for_training=True, inputs_need_grad=False, force_rebind=False, shared_module=None, grad_req="write"):
        """Makes arrays for these input shapes."""
        raise NotImplementedError

    def init_params(self, initializer=Uniform(0.01), arg_params=None, aux_params=None, allow_missing=False, force_init=False, allow_extra=False):
        """First values of the parameters."""
        raise NotImplementedError

    def init_optimizer(self, kvstore="local", optimizer="sgd", optimizer_params=(("learning_rate", 0.01),), force_init=False):
        """Gets ready to update."""
        raise NotImplementedError

    def get_params(self):
        """(arguments, auxiliary states)."""
        raise NotImplementedError

    def forward(self, data_batch, is_train=None):
        """Runs a batch."""
        raise NotImplementedError

    def backward(self, out_grads=None):
        """Gradients of the last forward."""
        raise NotImplementedError

    def update(self):
        """Updates the parameters."""
        raise NotImplementedError

    def get_outputs(self, merge_multi_context=True):
        """Outputs of the last forward."""
        raise NotImplementedError

    def get_input_grads(self, merge_multi_context=True):
        """Gradients of the inputs."""
        raise NotImplementedError

    def update_metric(self, eval_metric, labels, pre_sliced=False):
        """Adds the last batch to a metric."""
        raise NotImplementedError

    def install_monitor(self, mon):
        """Watches the executors."""
        raise NotImplementedError

    def get_states(self, merge_multi_context=True):
        """No states."""
        self._need(bind=True, params=True)
        return []

    def set_states(self, states=None, value=None):
        """No states."""
        self._need(bind=True, params=True)
        if states or value:
            raise AssertionError(f"{type(self).__name__} has no states")

    def prepare(self, data_batch, sparse_row_id_fn=None):
        """Before a batch: nothing to do."""

    # ---- what follows from it

    def forward_backward(self, data_batch):
        """Both passes."""
        self.forward(data_batch, is_train=True)
        self.backward()

    def _add_to_metric(self, eval_metric, batch):
        """A list of batches has one for each context."""
        if isinstance(batch, list):
            self.update_metric(eval_metric, [each.label for each in batch], pre_sliced=True)
        else:
            self.update_metric(eval_metric, batch.label)

    def _trimmed(self, outputs, pad):
        return [out[:out.shape[0] - pad] if pad else out for out in outputs]

    def score(self, eval_data, eval_metric, num_batch=None, batch_end_callback=None, score_end_callback=None, reset=True, epoch=0, sparse_row_id_fn=None):
        """The metric over a data iterator."""
        self._need(bind=True, params=True)
        if reset:
            eval_data.reset()
        eval_metric = metrics.create(eval_metric)
        eval_metric.reset()
        for number, batch in enumerate(eval_data):
            if number == num_batch:
                break
            self.prepare(batch, sparse_row_id_fn)
            self.forward(batch, is_train=False)
            self._add_to_metric(eval_metric, batch)
            self._tell(batch_end_callback, BatchEndParam(epoch, number, eval_metric, locals()))
        self._tell(score_end_callback, BatchEndParam(epoch, 0, eval_metric, locals()))
        return eval_metric.get_name_value()

    def iter_predict(self, eval_data, num_batch=None, reset=True, sparse_row_id_fn=None):
        """Outputs batch by batch."""
        self._need(bind=True, params=True)
        if reset:
            eval_data.reset()
        for number, batch in enumerate(eval_data):
            if number == num_batch:
                break
            self.prepare(batch, sparse_row_id_fn)
            self.forward(batch, is_train=False)
            yield self._trimmed(self.get_outputs(), getattr(batch, "pad", 0) or 0), number, batch

    def predict(self, eval_data, num_batch=None, merge_batches=True, reset=True, always_output_list=False, sparse_row_id_fn=None):
        """Outputs over a data iterator or an array."""
        if isinstance(eval_data, nd.NDArray):
            from ..io import DataBatch
            self.forward(DataBatch([eval_data]), is_train=False)
            return self.get_outputs()[0].copy()  # the next forward writes into the same array
        outputs = [[x.copy() for x in out] for out, _, _ in self.iter_predict(eval_data, num_batch, reset)]
        if not merge_batches or not outputs:
            return outputs
        merged = [nd.concat(*parts, dim=0) for parts in zip(*outputs)]
        return merged[0] if len(merged) == 1 and not always_output_list else merged

    def fit(self, train_data, eval_data=None, eval_metric="acc", epoch_end_callback=None, batch_end_callback=None, kvstore="local", optimizer="sgd",
            optimizer_params=(("learning_rate", 0.01),), eval_end_callback=None, eval_batch_end_callback=None, initializer=Uniform(0.01),
            arg_params=None, aux_params=None, allow_missing=False, force_rebind=False, force_init=False, begin_epoch=0, num_epoch=None,
            validation_metric=None, monitor=None, sparse_row_id_fn=None):
        """Trains for num_epoch epochs."""
        if num_epoch is None:
            raise AssertionError("please specify number of epochs")
        self.bind(train_data.provide_data, train_data.provide_label, for_training=True, force_rebind=force_rebind)
        if monitor is not None:
            self.install_monitor(monitor)
        self.init_params(initializer, arg_params, aux_params, allow_missing, force_init)
        self._fit_begins(initializer)
        self.init_optimizer(kvstore, optimizer, optimizer_params)
        eval_metric = metrics.create(eval_metric)
        validation_metric = validation_metric or eval_metric
        for epoch in range(begin_epoch, num_epoch):
            start = time.time()
            eval_metric.reset()
            self._epoch_begins(epoch, train_data)
            train_data.reset()
            for number, batch in enumerate(train_data):
                if monitor is not None:
                    monitor.tic()
                self.prepare(batch, sparse_row_id_fn)
                self.forward_backward(batch)
                self.update()
                self._add_to_metric(eval_metric, batch)
                if monitor is not None:
                    monitor.toc_print()
                self._tell(batch_end_callback, BatchEndParam(epoch, number, eval_metric, locals()))
            for name, value in eval_metric.get_global_name_value():
                self.logger.info("Epoch[%d] Train-%s=%f", epoch, name, value)
            self.logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - start)
            args, states = self.get_params()
            self.set_params(args, states)  # the contexts agree about auxiliary states again
            for callback in _listed(epoch_end_callback or []):
                callback(epoch, self.symbol, args, states)
            if eval_data is not None:
                for name, value in self.score(eval_data, validation_metric, batch_end_callback=eval_batch_end_callback,
                                              score_end_callback=eval_end_callback, epoch=epoch):
                    self.logger.info("Epoch[%d] Validation-%s=%f", epoch, name, value)

    def _fit_begins(self, initializer):
        """For modules that need more than parameters before training."""

    def _epoch_begins(self, epoch, train_data):
        """For modules that do something before an epoch; train_data is set back afterwards."""

    @staticmethod
    def _tell(callbacks, param):
        for callback in _listed(callbacks or []):
            callback(param)

    def _need(self, bind=False, params=False, optimizer=False):
        for needed, there, call in ((bind, self.binded, "bind()"), (params, self.params_initialized, "init_params()"),
                                    (optimizer, self.optimizer_initialized, "init_optimizer()")):
            if needed and not there:
                raise AssertionError(f"call {call} first")

    def save_params(self, fname):
        """Writes all parameters."""
        args, states = self.get_params()
        nd.save(fname, {**{f"arg:{k}": v for k, v in args.items()}, **{f"aux:{k}": v for k, v in states.items()}})

    def load_params(self, fname):
        """Reads all parameters."""
        values = nd.load(fname)
        self.set_params({k[4:]: v for k, v in values.items() if k.startswith("arg:")}, {k[4:]: v for k, v in values.items() if k.startswith("aux:")})

    def set_params(self, arg_params, aux_params, allow_missing=False, force_init=True, allow_extra=False):
        """Takes over parameters."""
        self.init_params(None, arg_params, aux_params, allow_missing, force_init, allow_extra)
