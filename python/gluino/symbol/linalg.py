"""Operators of mx.sym.linalg, from the registry."""
