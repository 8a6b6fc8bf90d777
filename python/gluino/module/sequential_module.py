"""SequentialModule: modules one after the other."""
import logging

from ..initializer import Uniform
from ..io import DataBatch
from .base_module import BaseModule

__all__ = ["SequentialModule"]


class SequentialModule(BaseModule):
    """Outputs of a module are the inputs of the next. add() takes: take_labels (it gets the labels), auto_wiring (inputs are renamed)."""

    META_TAKE_LABELS, META_AUTO_WIRING = "take_labels", "auto_wiring"

    def __init__(self, logger=logging):
        super().__init__(logger)
        self._modules, self._metas, self._data_shapes, self._label_shapes = [], [], None, None
        self._meta_keys = {self.META_TAKE_LABELS, self.META_AUTO_WIRING}

    def add(self, module, **kwargs):
        """Appends a module."""
        for key in kwargs:
            if key not in self._meta_keys:
                raise AssertionError(f"Unknown meta \"{key}\", a typo? There are {self.META_TAKE_LABELS} and {self.META_AUTO_WIRING}")
        self._modules.append(module)
        self._metas.append(kwargs)
        self.binded = self.params_initialized = self.optimizer_initialized = False
        return self

    @property
    def data_names(self):
        """Names of the first module's inputs."""
        return self._modules[0].data_names if self._modules else []

    @property
    def output_names(self):
        """Names of the last module's outputs."""
        return self._modules[-1].output_names if self._modules else []

    @property
    def data_shapes(self):
        """Descriptions of the first module's inputs."""
        self._need(bind=True)
        return self._modules[0].data_shapes

    @property
    def label_shapes(self):
        """Descriptions of the labels."""
        self._need(bind=True)
        return self._label_shapes

    @property
    def output_shapes(self):
        """[(name, shape)] of the last module's outputs."""
        self._need(bind=True)
        return self._modules[-1].output_shapes

    def bind(self, data_shapes, label_shapes=None, for_training=True, inputs_need_grad=False, force_rebind=False, shared_module=None, grad_req="write"):
        """Binds all modules, each with the output shapes of the one before."""
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if inputs_need_grad and not for_training:
            raise AssertionError("inputs_need_grad needs for_training")
        if shared_module is not None:
            raise AssertionError("Shared module is not supported")
        if not self._modules:
            raise AssertionError("Attempting to bind an empty SequentialModule")
        self.binded, self.for_training, self.inputs_need_grad = True, for_training, inputs_need_grad
        anyone_takes_labels, shapes = False, data_shapes
        for i, (meta, module) in enumerate(zip(self._metas, self._modules)):
            takes_labels = bool(meta.get(self.META_TAKE_LABELS))
            anyone_takes_labels |= takes_labels
            if meta.get(self.META_AUTO_WIRING):
                shapes = [(name, item[1]) for name, item in zip(module.data_names, shapes)]
            module.bind(shapes, label_shapes if takes_labels else None, for_training, inputs_need_grad or (for_training and i > 0), force_rebind,
                        None, grad_req)
            shapes = module.output_shapes
        self._data_shapes, self._label_shapes = data_shapes, label_shapes if anyone_takes_labels else None

    def get_params(self):
        """The parameters of all modules."""
        self._need(bind=True, params=True)
        args, states = {}, {}
        for module in self._modules:
            more = module.get_params()
            args.update(more[0])
            states.update(more[1])
        return args, states

    def init_params(self, initializer=Uniform(0.01), arg_params=None, aux_params=None, allow_missing=False, force_init=False, allow_extra=False):
        """First values of all modules' parameters."""
        if self.params_initialized and not force_init:
            return
        self._need(bind=True)
        for module in self._modules:
            known = dict.fromkeys(getattr(module, "_param_names", ())), dict.fromkeys(getattr(module, "_aux_names", ()))
            given = [None if values is None else {n: v for n, v in values.items() if n in names}
                     for values, names in zip((arg_params, aux_params), known)]
            module.init_params(initializer, *given, allow_missing=allow_missing, force_init=force_init, allow_extra=allow_extra)
        self._check_names()
        self.params_initialized = True

    def _check_names(self):
        owners = {}
        for i, module in enumerate(self._modules):
            for name in [key for values in module.get_params() for key in values]:
                if name in owners:
                    raise AssertionError(f"Duplicated parameter names: name \"{name}\" in layer {i} ({type(module)}) is already used in layer "
                                         f"{owners[name]} ({type(self._modules[owners[name]])}).")
                owners[name] = i

    def init_optimizer(self, kvstore="local", optimizer="sgd", optimizer_params=(("learning_rate", 0.01),), force_init=False):
        """Gets all modules ready to update."""
        self._need(bind=True, params=True)
        if self.optimizer_initialized and not force_init:
            return
        for module in self._modules:
            module.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        self.optimizer_initialized = True

    def forward(self, data_batch, is_train=None):
        """Runs a batch through all modules."""
        self._need(bind=True, params=True)
        label = getattr(data_batch, "label", None)
        batch = DataBatch(data_batch.data, label, data_batch.pad, data_batch.index, provide_data=data_batch.provide_data,
                          provide_label=data_batch.provide_label)
        for i, module in enumerate(self._modules):
            module.forward(batch, is_train)
            if i + 1 < len(self._modules):
                outputs = module.get_outputs()
                described = [(name, out.shape) for name, out in zip(module.output_names, outputs)]
                if self._metas[i + 1].get(self.META_AUTO_WIRING):
                    described = [(name, item[1]) for name, item in zip(self._modules[i + 1].data_names, described)]
                batch = DataBatch(outputs, label, batch.pad, batch.index, provide_data=described, provide_label=data_batch.provide_label)

    def backward(self, out_grads=None):
        """Gradients, from the last module to the first."""
        self._need(bind=True, params=True)
        for i, module in reversed(list(enumerate(self._modules))):
            module.backward(out_grads)
            if i:
                out_grads = module.get_input_grads()

    def update(self):
        """Updates all modules."""
        self._need(True, True, True)
        for module in self._modules:
            module.update()

    def get_outputs(self, merge_multi_context=True):
        """Outputs of the last module."""
        self._need(bind=True, params=True)
        return self._modules[-1].get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context=True):
        """Gradients of the first module's inputs."""
        self._need(bind=True, params=True)
        return self._modules[0].get_input_grads(merge_multi_context)

    def update_metric(self, eval_metric, labels, pre_sliced=False):
        """Adds the last batch to a metric, at the modules that take labels."""
        self._need(bind=True, params=True)
        for meta, module in zip(self._metas, self._modules):
            if meta.get(self.META_TAKE_LABELS):
                module.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon):
        """Watches all modules."""
        self._need(bind=True)
        for module in self._modules:
            module.install_monitor(mon)
