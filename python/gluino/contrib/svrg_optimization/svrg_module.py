"""SVRGModule: stochastic variance reduced gradients (Johnson and Zhang, 2013)."""
import logging

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

    def _fit_begins(self, initializer):
        self._mod_aux.init_params(initializer, *self.get_params(), force_init=True)

    def _epoch_begins(self, epoch, train_data):
        if epoch % self.update_freq == 0:
            self.update_full_grads(train_data)
