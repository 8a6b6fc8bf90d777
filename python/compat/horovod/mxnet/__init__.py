"""Horovod's functions for MXNet, on gluino.distributed: gradients are averaged over the ranks, first values are broadcast."""
import pickle
import warnings

import numpy as np

import gluino as mx
from gluino import distributed as _ranks
from gluino.gluon.parameter import Parameter

Average, Sum, Adasum = "Average", "Sum", "Adasum"
Max, Min = "Max", "Min"
global_process_set = None


class Compression:
    """How gradients travel: Compression.none as they are, Compression.fp16 rounded."""

    none, fp16 = "", "fp16"


def init(comm=None, process_sets=None):
    """Joins the ranks."""
    if comm is not None and not (isinstance(comm, (list, tuple)) and len(comm) == 0):
        raise NotImplementedError("hvd.init: a part of the ranks cannot be chosen; start as many as are needed")
    _ranks.init()


shutdown = _ranks.finish
is_initialized = _ranks.is_initialized
rank, size, local_rank, local_size = _ranks.rank, _ranks.size, _ranks.local_rank, _ranks.local_size


def cross_size():
    """How many machines there are, where all have as many ranks."""
    return max(1, size() // local_size())


def cross_rank():
    """The number of this machine, where all have as many ranks."""
    return rank() // local_size()


def is_homogeneous():
    """Whether all machines have as many ranks."""
    sizes = allgather(mx.nd.array([local_size()])).asnumpy()
    return bool((sizes == sizes[0]).all())


def mpi_threads_supported():
    """True: collectives are done by a thread of their own."""
    return True


def mpi_enabled():
    """Whether MPI carries the bytes."""
    return size() > 1


mpi_built = mpi_enabled


def gloo_built():
    """False."""
    return False


gloo_enabled = nccl_built = ddl_built = ccl_built = cuda_built = rocm_built = gloo_built


def _combined(tensor, average, op, prescale_factor, postscale_factor):
    if op is not None and average is not None:
        raise ValueError("The op parameter supersedes average. Please provide only one of them.")
    if op is None:
        op = Sum if average is False else Average
    if op not in (Average, Sum, Max, Min):
        raise NotImplementedError(f"hvd.allreduce: op {op} is not there; Average, Sum, Max and Min are")
    given = tensor if prescale_factor == 1.0 else tensor * prescale_factor
    result = _ranks.all_reduce(given, {Average: "mean", Sum: "sum", Max: "max", Min: "min"}[op])
    return result if postscale_factor == 1.0 else result * postscale_factor


def allreduce(tensor, average=None, name=None, priority=0, prescale_factor=1.0, postscale_factor=1.0, process_set=None, op=None):
    """The mean, or sum, over the ranks."""
    return _combined(tensor, average, op, prescale_factor, postscale_factor)


def allreduce_(tensor, average=None, name=None, priority=0, prescale_factor=1.0, postscale_factor=1.0, process_set=None, op=None):
    """The same in place."""
    with mx.autograd.pause():
        tensor[:] = _combined(tensor, average, op, prescale_factor, postscale_factor)
    return tensor


def grouped_allreduce(tensors, average=None, name=None, priority=0, prescale_factor=1.0, postscale_factor=1.0, process_set=None, op=None):
    """Several at once."""
    return [_combined(tensor, average, op, prescale_factor, postscale_factor) for tensor in tensors]


def grouped_allreduce_(tensors, average=None, name=None, priority=0, prescale_factor=1.0, postscale_factor=1.0, process_set=None, op=None):
    """Several at once, in place."""
    return [allreduce_(tensor, average, name, priority, prescale_factor, postscale_factor, process_set, op) for tensor in tensors]


def allgather(tensor, name=None, priority=0, process_set=None):
    """The arrays of all ranks one after the other; they may differ in their first extent."""
    return _ranks.all_gather_rows(tensor)


def broadcast(tensor, root_rank, name=None, priority=0, process_set=None):
    """The array of one rank, on all."""
    return _ranks.broadcast(tensor, root_rank)


def broadcast_(tensor, root_rank, name=None, priority=0, process_set=None):
    """The same in place."""
    with mx.autograd.pause():
        tensor[:] = _ranks.broadcast(tensor, root_rank)
    return tensor


def broadcast_object(obj, root_rank=0, name=None, process_set=None):
    """A Python object of one rank, on all. It travels as a pickle: among ranks of one job all trust each other."""
    data = np.frombuffer(pickle.dumps(obj), dtype=np.uint8) if rank() == root_rank else np.zeros(0, np.uint8)
    length = int(broadcast(mx.nd.array([len(data)], dtype="int64"), root_rank).asnumpy()[0])
    sent = np.zeros(length, np.uint8)
    sent[:len(data)] = data
    return pickle.loads(broadcast(mx.nd.array(sent, dtype="uint8"), root_rank).asnumpy().tobytes())


def allgather_object(obj, name=None):
    """The objects of all ranks, as a list."""
    data = np.frombuffer(pickle.dumps(obj), dtype=np.uint8)
    lengths = allgather(mx.nd.array([len(data)], dtype="int64")).asnumpy().astype(int)
    joined = allgather(mx.nd.array(data, dtype="uint8")).asnumpy().tobytes()
    ends = np.cumsum(lengths)
    return [pickle.loads(joined[end - length:end]) for length, end in zip(lengths, ends)]


def broadcast_parameters(params, root_rank=0, prefix=None):
    """All ranks take the values of one. Parameters that have none yet take them when they are initialised."""
    if not isinstance(params, dict) and not hasattr(params, "items"):
        raise ValueError(f"invalid params of type: {type(params)}")
    for _, p in sorted(params.items()):
        if not isinstance(p, Parameter):
            broadcast_(p, root_rank)
        elif p._data is not None:
            for array in p.list_data():
                broadcast_(array, root_rank)
        else:
            _broadcast_when_initialised(p, root_rank)


def _broadcast_when_initialised(parameter, root_rank):
    finish = parameter._finish_deferred_init

    def finish_and_broadcast():
        waiting = parameter._data is None
        finish()
        if waiting and parameter._data is not None:
            del parameter._finish_deferred_init
            for array in parameter.list_data():
                broadcast_(array, root_rank)
    parameter._finish_deferred_init = finish_and_broadcast


class DistributedOptimizer(mx.optimizer.Optimizer):
    """An optimizer whose gradients are averaged over the ranks before each update."""

    def __init__(self, optimizer, gradient_predivide_factor=1.0, num_groups=0, process_set=None):  # pylint: disable=super-init-not-called
        self.__dict__["_optimizer"] = optimizer

    def __getattr__(self, item):
        return getattr(self.__dict__["_optimizer"], item)

    def __setattr__(self, item, value):
        setattr(self._optimizer, item, value)

    def create_state(self, index, weight):
        return self._optimizer.create_state(index, weight)

    def create_state_multi_precision(self, index, weight):
        return self._optimizer.create_state_multi_precision(index, weight)

    def _average(self, grad):
        for g in grad if isinstance(grad, (list, tuple)) else [grad]:
            allreduce_(g, average=True)

    def update(self, index, weight, grad, state):
        self._average(grad)
        self._optimizer.update(index, weight, grad, state)

    def update_multi_precision(self, index, weight, grad, state):
        self._average(grad)
        self._optimizer.update_multi_precision(index, weight, grad, state)

    def set_learning_rate(self, lr):
        self._optimizer.set_learning_rate(lr)

    def set_lr_mult(self, args_lr_mult):
        self._optimizer.set_lr_mult(args_lr_mult)

    def set_wd_mult(self, args_wd_mult):
        self._optimizer.set_wd_mult(args_wd_mult)


class DistributedTrainer(mx.gluon.Trainer):
    """A trainer whose gradients are averaged over the ranks; step() takes the batch size of one of them."""

    def __init__(self, params, optimizer, optimizer_params=None, compression=Compression.none, gradient_predivide_factor=1.0, prefix=None,
                 num_groups=0, process_set=None):
        if isinstance(optimizer, DistributedOptimizer):
            optimizer = optimizer._optimizer
            warnings.warn("DistributedTrainer does not take DistributedOptimizer as its optimizer. We have unwrapped it for you.")
        super().__init__(params, optimizer, optimizer_params=optimizer_params, kvstore="dist_sync",
                         compression_params={"type": compression} if compression else None)
        self._scale /= size()
