"""SVRGModule: stochastic variance reduced gradients (Johnson and Zhang, 2013)."""
import logging
import time

from ... import metric as metrics
from ...initializer import Uniform
from ...model import BatchEndParam
from ...module import Module

__all__ = ["SVRGModule"]


class SVRGModule(Module):
    """Every update_freq epochs the gradient over all data is computed at a snapshot of the weights; updates in between use
    gradient(weights) - gradient(snapshot) + that mean."""

    def __init__(self, symbol, data_names=("data",), label_names=("softmax_label",), logger=logging, context=None, work_load_list=None,
                 fixed_param_names=None, state_names=None, group2ctxs=None, compression_params=None, update_freq=None):
        common = dict(data_names=data_names, label_names=label_names, logger=logger, context=context, work_load_list=work_load_list,
                      fixed_param_names=fixed_param_names, state_names=state_names, group2ctxs=group2ctxs, compression_params=compression_params)
        super().__init__(symbol, **common)
        if not isinstance(update_freq, int):
            raise TypeError("update_freq in SVRGModule must be an integer to represent the frequency for calculating full gradients")
        if update_freq <= 0:
            raise ValueError("update_freq in SVRGModule must be a positive integer to represent the frequency for calculating full gradients")
        self.update_freq, self._mod_aux, self._full_grads = update_freq, Module(symbol, **common), None

    def bind(self, data_shapes, label_shapes=None, for_training=True, inputs_need_grad=False, force_rebind=False, shared_module=None, grad_req="write"):
        """Binds the module and that of the snapshot."""
        super().bind(data_shapes, label_shapes, for_training, inputs_need_grad, force_rebind, shared_module, grad_req)
        if for_training:
            self._mod_aux.bind(data_shapes, label_shapes, for_training, inputs_need_grad, force_rebind, shared_module, grad_req)

    def reshape(self, data_shapes, label_shapes=None):
        """Other input shapes."""
        super().reshape(data_shapes, label_shapes)
        self._mod_aux.reshape(data_shapes, label_shapes)

    def init_optimizer(self, kvstore="local", optimizer="sgd", optimizer_params=(("learning_rate", 0.01),), force_init=False):
        """Gets ready to update."""
        super().init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        self._full_grads = None

    def forward(self, data_batch, is_train=None):
        """Runs a batch, at the snapshot too when training."""
        super().forward(data_batch, is_train)
        if self._full_grads is not None and (self.for_training if is_train is None else is_train):
            self._mod_aux.forward(data_batch, is_train)

    def backward(self, out_grads=None):
        """Gradients of the last forward, at the snapshot too."""
        super().backward(out_grads)
        if self._full_grads is not None:
            self._mod_aux.backward(out_grads)

    def update_full_grads(self, train_data):
        """Takes a snapshot and computes the mean gradient over all data there."""
        args, states = self.get_params()
        self._mod_aux.set_params(args, states)
        train_data.reset()
        totals, batches = None, 0
        for batch in train_data:
            self._mod_aux.forward(batch, is_train=True)
            self._mod_aux.backward()
            now = self._gradients(self._mod_aux)
            totals = [[g.copy() for g in copies] for copies in now] if totals is None else [[t + g for t, g in zip(*pair)] for pair in zip(totals, now)]
            batches += 1
        self._full_grads = [[total / batches for total in copies] for copies in totals]

    @staticmethod
    def _gradients(module):
        return [[g for g in copies if g is not None] for copies in module._exec_group.grad_arrays]

    def update(self):
        """Corrects the gradients by the snapshot's, and updates."""
        if self._full_grads is not None:
            for own, snapshot, whole in zip(self._gradients(self), self._gradients(self._mod_aux), self._full_grads):
                for grad, there, mean in zip(own, snapshot, whole):
                    grad[:] = grad - there + mean
        super().update()

    def prepare(self, data_batch, sparse_row_id_fn=None):
        """Before a batch."""
        super().prepare(data_batch, sparse_row_id_fn)
        self._mod_aux.prepare(data_batch, sparse_row_id_fn)

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
        self._mod_aux.init_params(initializer, *self.get_params(), force_init=True)
        self.init_optimizer(kvstore, optimizer, optimizer_params)
        eval_metric = metrics.create(eval_metric)
        for epoch in range(begin_epoch, num_epoch):
            start = time.time()
            eval_metric.reset()
            if epoch % self.update_freq == 0:
                self.update_full_grads(train_data)
            train_data.reset()
            for number, batch in enumerate(train_data):
                if monitor is not None:
                    monitor.tic()
                self.forward_backward(batch)
                self.update()
                self._add_to_metric(eval_metric, batch)
                if monitor is not None:
                    monitor.toc_print()
                self._tell(batch_end_callback, BatchEndParam(epoch, number, eval_metric, locals()))
            for name, value in eval_metric.get_global_name_value():
                self.logger.info("Epoch[%d] Train-%s=%f", epoch, name, value)
            self.logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - start)
            for callback in epoch_end_callback if isinstance(epoch_end_callback, (list, tuple)) else [epoch_end_callback] if epoch_end_callback else []:
                callback(epoch, self.symbol, *self.get_params())
            if eval_data is not None:
                for name, value in self.score(eval_data, validation_metric or eval_metric, batch_end_callback=eval_batch_end_callback,
                                              score_end_callback=eval_end_callback, epoch=epoch):
                    self.logger.info("Epoch[%d] Validation-%s=%f", epoch, name, value)
