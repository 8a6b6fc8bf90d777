"""BucketingModule: one module per sequence length, with common parameters."""
import logging

from ..initializer import Uniform
from ..model import load_params
from .base_module import BaseModule
from .module import Module

__all__ = ["BucketingModule"]


class BucketingModule(BaseModule):
    """sym_gen(bucket_key) -> (symbol, data names, label names)."""

    def __init__(self, sym_gen, default_bucket_key=None, logger=logging, context=None, work_load_list=None, fixed_param_names=None, state_names=None,
                 group2ctxs=None, compression_params=None):
        super().__init__(logger)
        if default_bucket_key is None:
            raise AssertionError("default_bucket_key is needed: the largest bucket")
        self._sym_gen, self._default_bucket_key = sym_gen, default_bucket_key
        self._kwargs = {"logger": logger, "context": context, "work_load_list": work_load_list, "fixed_param_names": fixed_param_names,
                        "state_names": state_names, "group2ctxs": group2ctxs, "compression_params": compression_params}
        self._buckets, self._curr_module, self._curr_bucket_key, self._monitor, self._grad_req = {}, None, None, None, "write"
        self._preloaded = None
        self._fixed_param_names, self._state_names = list(fixed_param_names or []), list(state_names or [])
        self._context, self._work_load_list = context, work_load_list
        self._group2ctxs, self._compression_params, self._params_dirty = group2ctxs, compression_params, False

    def _call_sym_gen(self, bucket_key):
        return self._sym_gen(bucket_key)

    def _module(self, key):
        symbol, data, labels = self._call_sym_gen(key)
        return Module(symbol, data, labels, **self._kwargs)

    def _reset_bind(self):
        """Nothing is bound any more."""
        self.binded, self._buckets, self._curr_module, self._curr_bucket_key = False, {}, None, None

    @property
    def _main(self):
        return self._buckets[self._default_bucket_key]

    @property
    def symbol(self):
        """The symbol of the bucket in use."""
        self._need(bind=True)
        return self._curr_module.symbol

    @property
    def data_names(self):
        """Names of the inputs."""
        return self._curr_module.data_names if self.binded else self._call_sym_gen(self._default_bucket_key)[1]

    @property
    def output_names(self):
        """Names of the outputs."""
        return self._curr_module.output_names if self.binded else self._call_sym_gen(self._default_bucket_key)[0].list_outputs()

    @property
    def data_shapes(self):
        """Descriptions of the inputs."""
        self._need(bind=True)
        return self._curr_module.data_shapes

    @property
    def label_shapes(self):
        """Descriptions of the labels."""
        self._need(bind=True)
        return self._curr_module.label_shapes

    @property
    def output_shapes(self):
        """[(name, shape)] of the outputs."""
        self._need(bind=True)
        return self._curr_module.output_shapes

    # ---- buckets

    def bind(self, data_shapes, label_shapes=None, for_training=True, inputs_need_grad=False, force_rebind=False, shared_module=None, grad_req="write"):
        """Binds the default bucket."""
        if shared_module is not None:
            raise AssertionError("shared_module for BucketingModule is not supported")
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        kept = self.get_params() if self.params_initialized else None
        self.for_training, self.inputs_need_grad, self._grad_req = for_training, inputs_need_grad, grad_req
        self._curr_module = self._module(self._default_bucket_key)
        self._buckets, self._curr_bucket_key = {self._default_bucket_key: self._curr_module}, self._default_bucket_key
        self._curr_module.bind(data_shapes, label_shapes, for_training, inputs_need_grad, grad_req=grad_req)
        self.binded = True
        kept = kept or self._preloaded
        if kept is not None:
            self.set_params(*kept)

    def switch_bucket(self, bucket_key, data_shapes, label_shapes=None):
        """Goes on with another bucket."""
        self._need(bind=True)
        main = self._main
        if bucket_key not in self._buckets:
            module = self._buckets[bucket_key] = self._module(bucket_key)
            module.bind(data_shapes, label_shapes, self.for_training, self.inputs_need_grad, shared_module=main, grad_req=self._grad_req)
            if self._monitor is not None:
                module.install_monitor(self._monitor)
        self._curr_module, self._curr_bucket_key = self._buckets[bucket_key], bucket_key
        self._curr_module.params_initialized = main.params_initialized
        if main.optimizer_initialized and not self._curr_module.optimizer_initialized:
            self._curr_module.borrow_optimizer(main)

    def prepare(self, data_batch, sparse_row_id_fn=None):
        """Gets a batch's bucket ready, without going on with it."""
        self._need(bind=True, params=True)
        if data_batch.bucket_key is None:
            return
        current = self._curr_bucket_key
        self.switch_bucket(data_batch.bucket_key, data_batch.provide_data, data_batch.provide_label)
        self._curr_module.prepare(data_batch, sparse_row_id_fn)
        self.switch_bucket(current, None, None)

    # ---- parameters

    def init_params(self, initializer=Uniform(0.01), arg_params=None, aux_params=None, allow_missing=False, force_init=False, allow_extra=False):
        """First values of the common parameters."""
        if self.params_initialized and not force_init:
            return
        self._need(bind=True)
        self._main.init_params(initializer, arg_params, aux_params, allow_missing, force_init, allow_extra)
        self.params_initialized = True

    def get_params(self):
        """The common parameters."""
        self._need(bind=True, params=True)
        return self._main.get_params()

    def set_params(self, arg_params, aux_params, allow_missing=False, force_init=True, allow_extra=False):
        """Takes over parameters."""
        if not force_init and self.params_initialized:
            return
        self._need(bind=True)
        self._main.set_params(arg_params, aux_params, allow_missing, force_init, allow_extra)
        self.params_initialized = True

    def init_optimizer(self, kvstore="local", optimizer="sgd", optimizer_params=(("learning_rate", 0.01),), force_init=False):
        """Gets ready to update."""
        self._need(bind=True, params=True)
        if self.optimizer_initialized and not force_init:
            return
        self._main.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        for module in self._buckets.values():
            if module is not self._main:
                module.borrow_optimizer(self._main)
        self.optimizer_initialized = True

    # ---- running

    def forward(self, data_batch, is_train=None):
        """Runs a batch in its bucket."""
        self._need(bind=True, params=True)
        if data_batch.bucket_key is not None:
            self.switch_bucket(data_batch.bucket_key, data_batch.provide_data, data_batch.provide_label)
        self._curr_module.forward(data_batch, is_train)

    def backward(self, out_grads=None):
        """Gradients of the last forward."""
        self._need(bind=True, params=True)
        self._curr_module.backward(out_grads)

    def update(self):
        """Updates the common parameters."""
        self._need(True, True, True)
        self._curr_module.update()

    def get_outputs(self, merge_multi_context=True):
        """Outputs of the last forward."""
        self._need(bind=True, params=True)
        return self._curr_module.get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context=True):
        """Gradients of the inputs."""
        self._need(bind=True, params=True)
        return self._curr_module.get_input_grads(merge_multi_context)

    def get_states(self, merge_multi_context=True):
        """Values of the inputs in state_names."""
        self._need(bind=True, params=True)
        return self._curr_module.get_states(merge_multi_context)

    def set_states(self, states=None, value=None):
        """Writes the inputs in state_names."""
        self._need(bind=True, params=True)
        self._curr_module.set_states(states, value)

    def update_metric(self, eval_metric, labels, pre_sliced=False):
        """Adds the last batch to a metric."""
        self._need(bind=True, params=True)
        self._curr_module.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon):
        """Watches all buckets, those that come later too."""
        self._need(bind=True)
        self._monitor = mon
        for module in self._buckets.values():
            module.install_monitor(mon)

    # ---- files

    def save_checkpoint(self, prefix, epoch, remove_amp_cast=False):
        """Writes the keys of the buckets, the symbol of each, and the common parameters."""
        import json
        self._need(bind=True, params=True)
        with open(f"{prefix}.buckets", "w", encoding="utf-8") as file:
            json.dump(list(self._buckets), file)
        for key, module in self._buckets.items():
            module.symbol.save(f"{prefix}-{key}-symbol.json")
        self.save_params(f"{prefix}-{epoch:04d}.params")

    @staticmethod
    def load(prefix, epoch, sym_gen=None, default_bucket_key=None, **kwargs):
        """A module from what save_checkpoint wrote; parameters are set when it is bound."""
        if sym_gen is None or default_bucket_key is None:
            raise AssertionError("sym_gen and default_bucket_key are needed")
        return BucketingModule.load_dict(None, sym_gen, default_bucket_key, *load_params(prefix, epoch), **kwargs)

    @staticmethod
    def load_dict(sym_dict=None, sym_gen=None, default_bucket_key=None, arg_params=None, aux_params=None, **kwargs):
        """A module with these parameters, for symbols of a function, or a dictionary by bucket."""
        if sym_gen is None:
            if not sym_dict:
                raise AssertionError("sym_gen or sym_dict is needed")
            sym_gen = sym_dict.__getitem__
        module = BucketingModule(sym_gen, default_bucket_key=default_bucket_key, **kwargs)
        module._preloaded = arg_params or {}, aux_params or {}
        return module
