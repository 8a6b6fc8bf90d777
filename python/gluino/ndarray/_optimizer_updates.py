"""Steps of AdamW and LAMB over one weight or several, with the gradient's factor as a number or an array."""
from .. import _core

__all__ = ["adamw_update", "mp_adamw_update", "multi_adamw_update", "multi_mp_adamw_update", "multi_lamb_update", "multi_mp_lamb_update"]


def _op(name, like):
    from .. import ndarray, symbol
    return getattr((symbol if isinstance(like, _core.SymbolBase) else ndarray)._internal, name)


def _factor(rescale_grad, like):
    if isinstance(rescale_grad, (_core.Array, _core.SymbolBase)):
        return rescale_grad
    from .. import ndarray, symbol
    made = (symbol if isinstance(like, _core.SymbolBase) else ndarray).full(shape=(1,), val=rescale_grad)
    return made if isinstance(like, _core.SymbolBase) else made.as_in_context(like.context)


def adamw_update(weight, grad, mean, var, rescale_grad, lr, eta, beta1=0.9, beta2=0.999, epsilon=1e-8, wd=0, clip_gradient=-1, out=None, name=None,
                 **kwargs):
    """One step of AdamW; none where rescale_grad is 0 or not finite."""
    more = {"out": out} if out is not None else {"name": name} if name else {}
    return _op("_adamw_update", weight)(weight, grad, mean, var, _factor(rescale_grad, weight), lr=lr, eta=eta, beta1=beta1, beta2=beta2, epsilon=epsilon,
                                        wd=wd, clip_gradient=clip_gradient, **more, **kwargs)


def mp_adamw_update(weight, grad, mean, var, weight32, rescale_grad, lr, eta, beta1=0.9, beta2=0.999, epsilon=1e-8, wd=0, clip_gradient=-1, out=None,
                    name=None, **kwargs):
    """The same with a float32 copy of the weight."""
    more = {"out": out} if out is not None else {"name": name} if name else {}
    return _op("_mp_adamw_update", weight)(weight, grad, mean, var, weight32, _factor(rescale_grad, weight), lr=lr, eta=eta, beta1=beta1, beta2=beta2,
                                           epsilon=epsilon, wd=wd, clip_gradient=clip_gradient, **more, **kwargs)


def _many(name, out, *lists, shared=(), **attrs):
    """One call on several weights: their inputs one weight after the other, then what all share; into `out`, or in place."""
    inputs = [tensor for of_one_weight in zip(*lists) for tensor in of_one_weight]
    more = {} if isinstance(lists[0][0], _core.SymbolBase) else {"out": list(lists[0]) if out is None else out}
    made = _op(name, lists[0][0])(*inputs, *shared, **attrs, **more)
    return made if isinstance(made, list) or isinstance(made, _core.SymbolBase) else [made]


def multi_adamw_update(weights, grads, mean, var, rescale_grad, lrs, wds, etas, out=None, name=None, size=0, **kwargs):
    """AdamW's step for several weights, in place or into `out`."""
    return _many("_multi_adamw_update", out, weights, grads, mean, var, shared=[_factor(rescale_grad, weights[0])], lrs=tuple(lrs), wds=tuple(wds),
                 etas=tuple(etas), num_weights=size or len(weights), **kwargs)


def multi_mp_adamw_update(weights, grads, mean, var, weights32, rescale_grad, lrs, wds, etas, out=None, name=None, size=0, **kwargs):
    """The same with float32 copies."""
    return _many("_multi_mp_adamw_update", out, weights, grads, mean, var, weights32, shared=[_factor(rescale_grad, weights[0])], lrs=tuple(lrs),
                 wds=tuple(wds), etas=tuple(etas), num_weights=size or len(weights), **kwargs)


def multi_lamb_update(weights, grads, mean, var, step_count, lrs, wds, out=None, num_tensors=0, **kwargs):
    """LAMB's step for several weights, in place or into `out`."""
    return _many("_multi_lamb_update", out, weights, grads, mean, var, step_count=tuple(step_count), learning_rates=tuple(lrs), wds=tuple(wds),
                 num_tensors=num_tensors or len(weights), **kwargs)


def multi_mp_lamb_update(weights, grads, mean, var, weights32, step_count, lrs, wds, out=None, num_tensors=0, **kwargs):
    """The same with float32 copies."""
    return _many("_multi_mp_lamb_update", out, weights, grads, mean, var, weights32, step_count=tuple(step_count), learning_rates=tuple(lrs),
                 wds=tuple(wds), num_tensors=num_tensors or len(weights), **kwargs)
