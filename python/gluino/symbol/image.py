"""Operators of mx.sym.image, from the registry."""
