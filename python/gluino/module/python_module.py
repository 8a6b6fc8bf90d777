"""Modules whose computation is a user's Python."""
import logging

from .. import initializer, ndarray as nd
from ..io import DataDesc
from .base_module import BaseModule

__all__ = ["PythonModule", "PythonLossModule"]


class PythonModule(BaseModule):
    """A module without parameters: define forward, backward and what the outputs look like."""

    def __init__(self, data_names, label_names, output_names, logger=logging):
        super().__init__(logger)
        self._data_names = list(data_names)
        self._label_names = list(label_names) if label_names is not None else None
        self._output_names = list(output_names)
        self._data_shapes = self._label_shapes = self._output_shapes = None

    @property
    def data_names(self):
        """Names of the inputs."""
        return self._data_names

    @property
    def output_names(self):
        """Names of the outputs."""
        return self._output_names

    @property
    def data_shapes(self):
        """Descriptions of the inputs."""
        return self._data_shapes

    @property
    def label_shapes(self):
        """Descriptions of the labels."""
        return self._label_shapes

    @property
    def output_shapes(self):
        """[(name, shape)] of the outputs."""
        return self._output_shapes

    def get_params(self):
        """No parameters."""
        return {}, {}

    def init_params(self, initializer=initializer.Uniform(0.01), arg_params=None, aux_params=None, allow_missing=False, force_init=False, allow_extra=False):
        """Nothing to do: there are no parameters."""
        self.params_initialized = True

    def init_optimizer(self, kvstore="local", optimizer="sgd", optimizer_params=(("learning_rate", 0.01),), force_init=False):
        """Nothing to do: there are no parameters."""
        self.optimizer_initialized = True

    def update(self):
        """Nothing to do: there are no parameters."""

    def update_metric(self, eval_metric, labels, pre_sliced=False):
        """Adds the last batch to a metric; a module without labels gives nothing to it."""
        if self._label_shapes is None:
            return
        if pre_sliced:
            raise RuntimeError("PythonModule does not support presliced labels")
        eval_metric.update(labels, self.get_outputs())

    def bind(self, data_shapes, label_shapes=None, for_training=True, inputs_need_grad=False, force_rebind=False, shared_module=None, grad_req="write"):
        """Takes the input shapes and asks for those of the outputs."""
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if grad_req != "write":
            raise AssertionError("Python module only support write gradient")
        names = [item[0] for item in data_shapes]
        if names != self._data_names:
            raise AssertionError(f"data is {names}, but the module takes {self._data_names}")
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._data_shapes, self._label_shapes = data_shapes, label_shapes
        self._output_shapes = self._compute_output_shapes()
        self.binded = True

    def _compute_output_shapes(self):
        """[(name, shape)] of the outputs; define it."""
        raise NotImplementedError(f"{type(self).__name__} must define _compute_output_shapes")


class PythonLossModule(PythonModule):
    """A loss: gives its input, and the gradient that grad_func(scores, labels) computes."""

    def __init__(self, name="pyloss", data_names=("data",), label_names=("softmax_label",), logger=logging, grad_func=None):
        super().__init__(data_names, label_names, [name + "_output"], logger)
        if len(data_names) != 1 or len(label_names) != 1:
            raise AssertionError("PythonLossModule takes one input and one label")
        if grad_func is not None and not callable(grad_func):
            raise AssertionError("grad_func must be a function of (scores, labels)")
        self._name, self._scores, self._labels, self._scores_grad, self._grad_func = name, None, None, None, grad_func

    def _compute_output_shapes(self):
        shape = self._data_shapes[0].shape if isinstance(self._data_shapes[0], DataDesc) else self._data_shapes[0][1]
        return [(self._name + "_output", shape)]

    def forward(self, data_batch, is_train=None):
        """Keeps the scores, and the labels when training."""
        self._scores = data_batch.data[0]
        if self.for_training if is_train is None else is_train:
            self._labels = data_batch.label[0]

    def get_outputs(self, merge_multi_context=True):
        """The scores."""
        if not merge_multi_context:
            raise AssertionError("PythonLossModule runs on one context")
        return [self._scores]

    def backward(self, out_grads=None):
        """The gradient of the scores."""
        if out_grads is not None:
            raise AssertionError("For a loss module, out_grads should be None")
        if not self.for_training:
            raise AssertionError("bind with for_training=True first")
        self._backward_impl()

    def _backward_impl(self):
        """Computes the gradient; derived modules define it instead of giving grad_func."""
        if self._grad_func is None:
            raise NotImplementedError("give grad_func, or define _backward_impl or backward")
        grad = self._grad_func(self._scores, self._labels)
        self._scores_grad = grad if isinstance(grad, nd.NDArray) else nd.array(grad)

    def get_input_grads(self, merge_multi_context=True):
        """The gradient of the scores."""
        if not merge_multi_context:
            raise AssertionError("PythonLossModule runs on one context")
        return [self._scores_grad]

    def install_monitor(self, mon):
        """Raises: there is no executor to watch."""
        raise NotImplementedError("PythonLossModule has no executor to watch")
