"""BucketingModule: one module per sequence length, with common parameters."""
import logging

from .base_module import BaseModule
from .module import Module

__all__ = ["BucketingModule"]


class BucketingModule(BaseModule):
    """sym_gen(bucket_key) -> (symbol, data names, label names)."""

    def __init__(self, sym_gen, default_bucket_key=None, logger=logging, context=None, **kwargs):
        super().__init__(logger)
        self._sym_gen, self._default, self._context, self._kwargs = sym_gen, default_bucket_key, context, kwargs
        self._buckets, self._current = {}, None

    @property
    def symbol(self):
        return None if self._current is None else self._current.symbol

    @symbol.setter
    def symbol(self, value):
        pass

    def _module(self, key):
        symbol, data, labels = self._sym_gen(key)
        return Module(symbol, data, labels, self.logger, self._context, **self._kwargs)

    def bind(self, data_shapes, label_shapes=None, for_training=True, inputs_need_grad=False, force_rebind=False, shared_module=None, grad_req="write"):
        """Binds the default bucket."""
        if self.binded and not force_rebind:
            return
        self._current = self._buckets[self._default] = self._module(self._default)
        self._current.bind(data_shapes, label_shapes, for_training, inputs_need_grad, grad_req=grad_req)
        self.binded, self.for_training = True, for_training

    def switch_bucket(self, bucket_key, data_shapes, label_shapes=None):
        """Goes on with another bucket."""
        main = self._buckets[self._default]
        if bucket_key not in self._buckets:
            module = self._buckets[bucket_key] = self._module(bucket_key)
            module.bind(data_shapes, label_shapes, self.for_training, shared_module=main)
            module._updater, module.optimizer_initialized = main._updater, main.optimizer_initialized
        self._current = self._buckets[bucket_key]
        self._current.params_initialized = main.params_initialized

    def init_params(self, *args, **kwargs):
        """First values of the common parameters."""
        self._buckets[self._default].init_params(*args, **kwargs)
        self.params_initialized = True

    def init_optimizer(self, *args, **kwargs):
        """Gets ready to update."""
        main = self._buckets[self._default]
        main.init_optimizer(*args, **kwargs)
        for module in self._buckets.values():
            module._updater, module.optimizer_initialized = main._updater, True
        self.optimizer_initialized = True

    def forward(self, data_batch, is_train=None):
        """Runs a batch in its bucket."""
        if data_batch.bucket_key is not None:
            self.switch_bucket(data_batch.bucket_key, data_batch.provide_data, data_batch.provide_label)
        self._current.forward(data_batch, is_train)

    def get_params(self):
        """The common parameters."""
        return self._buckets[self._default].get_params()

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._current, name)

    def backward(self, out_grads=None):
        self._current.backward(out_grads)

    def update(self):
        self._current.update()

    def get_outputs(self, merge_multi_context=True):
        return self._current.get_outputs()

    def update_metric(self, eval_metric, labels, pre_sliced=False):
        self._current.update_metric(eval_metric, labels)
