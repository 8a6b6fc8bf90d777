"""Functions of mx.nd, mx.sym, mx.np and mx.npx, made from the engine's registry: one callable per operator and spelling."""
from . import _core

# Operators whose names start so live in a namespace of their own: mx.nd.contrib.box_nms.
_PLACES = {"_contrib_": "contrib", "_linalg_": "linalg", "_image_": "image", "_sparse_": "sparse"}


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
        is_public = place != "_internal"
        function = _core.make_operator(op, short if is_public else name, False, symbolic, is_public)
        module = getattr(package, place) if place else package
        if short not in vars(module):  # not hasattr: a name that is missing makes the module look for its nearest
            setattr(module, short, function)
            if "__all__" in vars(module):
                module.__all__.append(short)
        setattr(package._internal, name, function)


def methods(symbolic):
    """Operators that make sense as methods x.name(...): one array in front, a plain lower-case name."""
    result = {}
    for name, op in _core.operator_names():
        if name.startswith("_") or name != name.lower():
            continue
        about = _core.describe_operator(op)
        first = about["inputs"][0][0] if about["inputs"] else None
        if about["variadic"] or first not in ("data", "a", "lhs", "indices"):
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
