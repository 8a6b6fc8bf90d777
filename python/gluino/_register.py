"""Functions of mx.nd, mx.sym, mx.np and mx.npx, made from the engine's registry: one callable per operator and spelling."""
from . import _core

# Operators whose names start so live in a namespace of their own: mx.nd.contrib.box_nms.
_PLACES = {"_contrib_": "contrib", "_linalg_": "linalg", "_image_": "image", "_sparse_": "sparse"}
_NUMPY_PLACES = {"_npx__image_": "npx.image", "_npx_": "npx", "_npi_": "np", "_np_": "np"}


def place_of(name, places):
    """(namespace, name there) of an operator; None where it has no place among these."""
    for prefix, place in places.items():
        if name.startswith(prefix):
            return place, name[len(prefix):]
    return None


def fill(package, symbolic):
    """Gives mx.nd or mx.sym its operators. Names in `package` that exist already stay."""
    for name, op in _core.operator_names():
        place, short = place_of(name, _PLACES) or ("_internal" if name.startswith("_") else "", name)
        function = _core.make_operator(op, short if place != "_internal" else name, False, symbolic)
        module = getattr(package, place) if place else package
        if not hasattr(module, short):
            setattr(module, short, function)
            if hasattr(module, "__all__"):
                module.__all__.append(short)
        setattr(package._internal, name, function)


def fill_numpy(np_module, npx_module, symbolic):
    """Gives mx.np and mx.npx the operators that the registry spells for them."""
    for name, op in _core.operator_names():
        place, short = place_of(name, _NUMPY_PLACES) or (None, None)
        if not place:
            continue
        module = {"np": np_module, "npx": npx_module, "npx.image": npx_module.image}[place]
        if not hasattr(module, short):
            setattr(module, short, _core.make_operator(op, short, True, symbolic))


def methods(symbolic):
    """Operators that make sense as methods x.name(...): one array in front, a plain lower-case name."""
    result = {}
    for name, op in _core.operator_names():
        about = _core.describe_operator(op)
        first = about["inputs"][0][0] if about["inputs"] else None
        if name.startswith("_") or name != name.lower() or about["variadic"] or first not in ("data", "a", "lhs", "indices"):
            continue
        if any(is_state for _, _, is_state in about["inputs"]):
            continue
        result[name] = _core.make_operator(op, name, False, symbolic)
    return result


def elsewhere(package):
    """The __getattr__ of a module whose names MXNet has here, and this package in the module around it."""
    def __getattr__(name):
        import importlib
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(importlib.import_module(package), name)
    return __getattr__


def missing(package):
    """The __getattr__ of a namespace of operators: an AttributeError with the nearest name."""
    def __getattr__(name):
        import difflib
        near = difflib.get_close_matches(name, [n for n in vars(package) if not n.startswith("_")], 1) if not name.startswith("_") else []
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise AttributeError(f"module '{package.__name__}' has no attribute '{name}'{hint}")
    return __getattr__
