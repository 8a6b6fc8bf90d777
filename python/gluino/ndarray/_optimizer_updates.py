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


def _each(out, weights):
    return weights if out is None else out if isinstance(out, (list, tuple)) else [out]


def multi_adamw_update(weights, grads, mean, var, rescale_grad, lrs, wds, etas, out=None, name=None, size=0, **kwargs):
    """AdamW's step for several weights, in place or into `out`."""
    rescale_grad = _factor(rescale_grad, weights[0])
    return [adamw_update(w, g, m, v, rescale_grad, lr, eta, wd=wd, out=target, **kwargs)
            for w, g, m, v, lr, wd, eta, target in zip(weights, grads, mean, var, lrs, wds, etas, _each(out, weights))]


def multi_mp_adamw_update(weights, grads, mean, var, weights32, rescale_grad, lrs, wds, etas, out=None, name=None, size=0, **kwargs):
    """The same with float32 copies."""
    rescale_grad = _factor(rescale_grad, weights[0])
    return [mp_adamw_update(w, g, m, v, w32, rescale_grad, lr, eta, wd=wd, out=target, **kwargs)
            for w, g, m, v, w32, lr, wd, eta, target in zip(weights, grads, mean, var, weights32, lrs, wds, etas, _each(out, weights))]


def _lamb(weight, grad, mean, var, weight32, step, lr, wd, target, lower_bound=-1.0, upper_bound=-1.0, **phase1):
    kind = "" if weight32 is None else "mp_"
    copies = [] if weight32 is None else [weight32]
    direction = _op(f"{kind}lamb_update_phase1", weight)(weight, grad, mean, var, *copies, t=step, wd=wd, **phase1)
    source = weight if weight32 is None else weight32
    return _op(f"{kind}lamb_update_phase2", weight)(weight, direction, source.norm(), direction.norm(), *copies, lr=lr, lower_bound=lower_bound,
                                                    upper_bound=upper_bound, out=target)


def multi_lamb_update(weights, grads, mean, var, step_count, lrs, wds, out=None, num_tensors=0, **kwargs):
    """LAMB's step for several weights, in place or into `out`."""
    return [_lamb(w, g, m, v, None, t, lr, wd, target, **kwargs)
            for w, g, m, v, t, lr, wd, target in zip(weights, grads, mean, var, step_count, lrs, wds, _each(out, weights))]


def multi_mp_lamb_update(weights, grads, mean, var, weights32, step_count, lrs, wds, out=None, num_tensors=0, **kwargs):
    """The same with float32 copies."""
    return [_lamb(w, g, m, v, w32, t, lr, wd, target, **kwargs)
            for w, g, m, v, w32, t, lr, wd, target in zip(weights, grads, mean, var, weights32, step_count, lrs, wds, _each(out, weights))]
