"""Checkpoints of symbolic models, and FeedForward, the trainer of before Module."""
import collections
import logging

import numpy as np

from . import _core, context, io, kvstore as kvstores, metric as metrics, ndarray as nd, symbol as sym
from .initializer import Uniform

__all__ = ["FeedForward", "BatchEndParam", "save_checkpoint", "load_checkpoint", "load_params"]

BatchEndParam = collections.namedtuple("BatchEndParams", ["epoch", "nbatch", "eval_metric", "locals"])


def save_checkpoint(prefix, epoch, symbol, arg_params, aux_params, remove_amp_cast=True):
    """Writes prefix-symbol.json and prefix-0001.params."""
    values = {f"arg:{name}": value for name, value in arg_params.items()}
    values.update({f"aux:{name}": value for name, value in aux_params.items()})
    files = [(f"{prefix}-{epoch:04d}.params", _core.write_params([(name, value, value._sparse_parts) for name, value in values.items()]))]
    if symbol is not None:
        files.append((f"{prefix}-symbol.json", symbol.tojson().encode()))
    _core.write_files(files)


def load_params(prefix, epoch):
    """(arguments, auxiliary states) of a checkpoint."""
    args, states = {}, {}
    for name, value in nd.load(f"{prefix}-{epoch:04d}.params").items():
        kind, _, short = name.partition(":")
        (states if kind == "aux" else args)[short] = value
    return args, states


def load_checkpoint(prefix, epoch):
    """(symbol, arguments, auxiliary states) of a checkpoint."""
    return (sym.load(f"{prefix}-symbol.json"), *load_params(prefix, epoch))


# ---- what modules of other libraries are made of: weights and gradients are lists by parameter, then by context

def _create_kvstore(kvstore, num_device, arg_params):
    """(store or None, whether it runs the optimizer): none is needed for one context in one process."""
    if kvstore is None:
        return None, False
    if isinstance(kvstore, str):
        if num_device == 1 and "dist" not in kvstore:
            return None, False
        kvstore = kvstores.create(kvstore)
    elif not isinstance(kvstore, kvstores.KVStoreBase):
        raise TypeError(f"kvstore is a KVStore, a str or None, not {type(kvstore).__name__}")
    return kvstore, kvstore.is_capable(kvstores.KVStoreBase.OPTIMIZER)


def _initialize_kvstore(kvstore, param_arrays, arg_params, param_names, update_on_kvstore):
    """Gives the store its first values; where it runs the optimizer, the contexts take theirs from it."""
    for i, (name, weights) in enumerate(zip(param_names, param_arrays)):
        kvstore.init(name, arg_params[name])
        if update_on_kvstore:
            kvstore.pull(name, weights, priority=-i)


def _update_params_on_kvstore(param_arrays, grad_arrays, kvstore, param_names):
    """One step of the store's optimizer."""
    for i, (name, weights, grads) in enumerate(zip(param_names, param_arrays, grad_arrays)):
        if grads[0] is not None:
            kvstore.push(name, grads, priority=-i)
            kvstore.pull(name, weights, priority=-i)


def _update_params(param_arrays, grad_arrays, updater, num_device, kvstore=None, param_names=None):
    """One step of an updater on each context, with gradients that the store, where there is one, has summed."""
    for i, (weights, grads) in enumerate(zip(param_arrays, grad_arrays)):
        if grads[0] is None:
            continue
        if kvstore is not None:
            kvstore.push(param_names[i], grads, priority=-i)
            kvstore.pull(param_names[i], grads, priority=-i)
        for k, (weight, grad) in enumerate(zip(weights, grads)):
            updater(i * num_device + k, grad, weight)


class FeedForward:
    """A symbol trained on arrays or an iterator, as in MXNet's first days; Module is its heir and does the work."""

    def __init__(self, symbol, ctx=None, num_epoch=None, epoch_size=None, optimizer="sgd", initializer=Uniform(0.01), numpy_batch_size=128,
                 arg_params=None, aux_params=None, allow_extra_params=False, begin_epoch=0, **kwargs):
        self.symbol = symbol(0) if callable(symbol) and not isinstance(symbol, sym.Symbol) else symbol
        self.sym_gen = symbol if self.symbol is not symbol else None
        self.ctx = list(ctx) if isinstance(ctx, (list, tuple)) else [ctx or context.current_context()]
        self.num_epoch, self.epoch_size, self.optimizer, self.initializer, self.kwargs = num_epoch, epoch_size, optimizer, initializer, kwargs
        self.arg_params, self.aux_params, self.allow_extra_params = arg_params, aux_params, allow_extra_params
        self.begin_epoch, self.numpy_batch_size = begin_epoch, numpy_batch_size

    def _iterator(self, X, y, is_train):
        """Arrays as an iterator; labels of 0 where none are given for prediction."""
        if not isinstance(X, (np.ndarray, nd.NDArray)):
            return X
        if y is None:
            if is_train:
                raise ValueError("y must be specified when X is numpy.ndarray")
            y = np.zeros(X.shape[0])
        y = np.asarray(y.asnumpy() if isinstance(y, nd.NDArray) else y)
        y = y.flatten() if y.ndim == 2 and y.shape[1] == 1 else y
        if X.shape[0] != y.shape[0]:
            raise ValueError(f"The numbers of data points and labels not equal: {X.shape[0]} and {y.shape[0]}")
        size = min(X.shape[0], self.numpy_batch_size)
        return io.NDArrayIter(X, y, size, shuffle=is_train, last_batch_handle="roll_over" if is_train else "pad")

    def _evaluation(self, eval_data):
        if isinstance(eval_data, (list, tuple)) and len(eval_data) == 2:
            data, label = (np.asarray(part) if isinstance(part, list) else part for part in eval_data)
            return self._iterator(data, label, True) if not isinstance(data, io.DataIter) else data
        return eval_data

    def _module(self, data, for_training):
        from .module import Module
        names = [item[0] for item in data.provide_data], [item[0] for item in data.provide_label or []]
        module = Module(self.symbol, *names, context=self.ctx)
        module.bind(data.provide_data, data.provide_label if any(n in self.symbol.list_arguments() for n in names[1]) else None, for_training)
        return module

    def _predictor(self, data):
        if self.arg_params is None:
            raise AssertionError("the model has no parameters: call fit() or load() first")
        module = self._module(data, False)
        known = {*self.symbol.list_arguments(), *self.symbol.list_auxiliary_states()}
        args, states = ({n: v for n, v in values.items() if n in known} if self.allow_extra_params else values
                        for values in (self.arg_params, self.aux_params or {}))
        module.set_params(args, states)
        return module

    def predict(self, X, num_batch=None, return_data=False, reset=True):
        """Outputs as NumPy arrays; with return_data also data and labels."""
        data = self._iterator(X, None, False)
        module = self._predictor(data)
        outputs, inputs, labels = [], [], []
        if reset:
            data.reset()
        for number, batch in enumerate(data):
            if number == num_batch:
                break
            module.forward(batch, is_train=False)
            kept = data.batch_size - (batch.pad or 0)
            outputs.append([out.asnumpy()[:kept] for out in module.get_outputs()])
            inputs.append([x.asnumpy()[:kept] for x in batch.data])
            labels.append([x.asnumpy()[:kept] for x in batch.label])
        joined = [[np.concatenate(parts) for parts in zip(*batches)] for batches in (outputs, inputs, labels)]
        joined = [parts[0] if len(parts) == 1 else parts for parts in joined]
        return tuple(joined) if return_data else joined[0]

    def score(self, X, eval_metric="acc", num_batch=None, batch_end_callback=None, reset=True):
        """The value of a metric over an iterator."""
        data = self._iterator(X, None, False)
        eval_metric = metrics.create(eval_metric)
        self._predictor(data).score(data, eval_metric, num_batch, batch_end_callback, reset=reset)
        return eval_metric.get()[1]

    def fit(self, X, y=None, eval_data=None, eval_metric="acc", epoch_end_callback=None, batch_end_callback=None, kvstore="local", logger=None,
            work_load_list=None, monitor=None, eval_end_callback=None, eval_batch_end_callback=None):
        """Trains."""
        data, eval_data = self._iterator(X, y, True), self._evaluation(eval_data)
        if self.sym_gen is not None:
            self.symbol = self.sym_gen(data.default_bucket_key)
        if self.epoch_size is not None:
            data = io.ResizeIter(data, self.epoch_size, reset_internal=False)
        from .module import Module
        names = [item[0] for item in data.provide_data], [item[0] for item in data.provide_label or []]
        module = Module(self.symbol, *names, logger=logger or logging, context=self.ctx, work_load_list=work_load_list)
        module.fit(data, eval_data, eval_metric, epoch_end_callback, batch_end_callback, kvstore, self.optimizer, self.kwargs or {"learning_rate": 0.01},
                   eval_end_callback, eval_batch_end_callback, self.initializer, self.arg_params, self.aux_params, allow_missing=True,
                   begin_epoch=self.begin_epoch, num_epoch=self.num_epoch, monitor=monitor)
        self.arg_params, self.aux_params = module.get_params()

    def save(self, prefix, epoch=None, remove_amp_cast=True):
        """Writes a checkpoint."""
        save_checkpoint(prefix, self.num_epoch if epoch is None else epoch, self.symbol, self.arg_params, self.aux_params)

    @staticmethod
    def load(prefix, epoch, ctx=None, **kwargs):
        """A model from a checkpoint."""
        symbol, args, states = load_checkpoint(prefix, epoch)
        return FeedForward(symbol, ctx=ctx, arg_params=args, aux_params=states, begin_epoch=epoch, **kwargs)

    @staticmethod
    def create(symbol, X, y=None, ctx=None, num_epoch=None, epoch_size=None, optimizer="sgd", initializer=Uniform(0.01), eval_data=None,
               eval_metric="acc", epoch_end_callback=None, batch_end_callback=None, kvstore="local", logger=None, work_load_list=None,
               eval_end_callback=None, eval_batch_end_callback=None, **kwargs):
        """A new model, trained."""
        model = FeedForward(symbol, ctx=ctx, num_epoch=num_epoch, epoch_size=epoch_size, optimizer=optimizer, initializer=initializer, **kwargs)
        model.fit(X, y, eval_data, eval_metric, epoch_end_callback, batch_end_callback, kvstore, logger, work_load_list,
                  eval_end_callback=eval_end_callback, eval_batch_end_callback=eval_batch_end_callback)
        return model
