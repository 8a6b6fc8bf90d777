"""mx.sym.sparse: the operators of mx.sym, whose graphs are dense."""


def __getattr__(name):
    from .. import symbol
    return getattr(symbol, name)
