"""Registries of classes by name, as initialisers, optimizers and metrics have them."""
import json
import warnings

__all__ = ["get_registry", "get_register_func", "get_alias_func", "get_create_func"]

_registries = {}


def get_registry(base_class):
    """A copy of the registry of a base class: classes by name."""
    return dict(_registries.get(base_class, {}))


def get_register_func(base_class, nickname):
    """A decorator that makes a class known by its lower-case name, or another one."""
    known = _registries.setdefault(base_class, {})

    def register(klass, name=None):
        if not issubclass(klass, base_class):
            raise AssertionError(f"Can only register subclass of {base_class.__name__}")
        name = (klass.__name__ if name is None else name).lower()
        if name in known and known[name] is not klass:
            warnings.warn(f"New {nickname} {klass.__module__}.{klass.__name__} registered with name {name} is overriding existing {nickname} "
                          f"{known[name].__module__}.{known[name].__name__}", UserWarning, stacklevel=2)
        known[name] = klass
        return klass
    register.__doc__ = f"Register {nickname} to the {nickname} factory"
    return register


def get_alias_func(base_class, nickname):
    """A decorator that gives a class further names."""
    register = get_register_func(base_class, nickname)

    def alias(*aliases):
        def registered(klass):
            for name in aliases:
                register(klass, name)
            return klass
        return registered
    return alias


def get_create_func(base_class, nickname):
    """A function that makes an object from itself, its class's name, or JSON: ["name", {arguments}] or {"nickname": "name", arguments}."""
    known = _registries.setdefault(base_class, {})

    def create(*args, **kwargs):
        if args:
            name, args = args[0], args[1:]
        else:
            name = kwargs.pop(nickname)
        if isinstance(name, base_class):
            if args or kwargs:
                raise AssertionError(f"{nickname} is already an instance. Additional arguments are invalid")
            return name
        if isinstance(name, dict):
            return create(**name)
        if not isinstance(name, str):
            raise AssertionError(f"{nickname} must be of string type")
        if name.startswith("["):
            name, kwargs = json.loads(name)
            return create(name, **kwargs)
        if name.startswith("{"):
            return create(**json.loads(name))
        if name.lower() not in known:
            raise AssertionError(f"{name} is not registered. Please register with {nickname}.register first; there are {', '.join(sorted(known))}")
        return known[name.lower()](*args, **kwargs)
    create.__doc__ = f"Create a {nickname} instance from config."
    return create
