"""Block.summary: a table of output shapes and parameter counts."""
import numpy as _np

from .parameter import shape_is_known

__all__ = ["summarize"]


def _shapes(values):
    if isinstance(values, (list, tuple)):
        return ", ".join(_shapes(v) for v in values if v is not None)
    return str(tuple(values.shape)) if hasattr(values, "shape") else str(values)


def _count(parameter):
    return int(_np.prod(parameter.shape)) if shape_is_known(parameter.shape) else 0


def summarize(block, inputs):
    """Runs the block once with hooks on every layer, and prints what they saw."""
    rows, hooks, seen = [("Input", _shapes(inputs), 0)], [], set()
    totals = {"all": 0, "trainable": 0, "shared": 0}

    def watch(layer):
        if getattr(layer, "_active", False):
            raise AssertionError(f"\"{layer.name}\" must not be hybridized to print summary.")

        def hook(layer, _, outputs):
            count = 0
            for parameter in layer._reg_params.values():
                count += _count(parameter)
                if parameter in seen:
                    totals["shared"] += _count(parameter)
                    continue
                seen.add(parameter)
                totals["all"] += _count(parameter)
                totals["trainable"] += _count(parameter) if parameter.grad_req != "null" else 0
            rows.append((f"{type(layer).__name__}-{len(rows)}", _shapes(outputs), count))
        hooks.append(layer.register_forward_hook(hook))
    try:
        block.apply(watch)
        block(*inputs)
    finally:
        for hook in hooks:
            hook.detach()
    line = "{:>20}  {:>42} {:>15}"
    print("-" * 80)
    print(line.format("Layer (type)", "Output Shape", "Param #"))
    print("=" * 80)
    for row in rows:
        print(line.format(*row))
    print("=" * 80)
    print("Parameters in forward computation graph, duplicate included")
    print(f"   Total params: {totals['all'] + totals['shared']}")
    print(f"   Trainable params: {totals['trainable']}")
    print(f"   Non-trainable params: {totals['all'] - totals['trainable']}")
    print(f"Shared params in forward computation graph: {totals['shared']}")
    print(f"Unique parameters in model: {totals['all']}")
    print("-" * 80)


