"""Operators of mx.sym.sparse, from the registry."""
