"""Operators of mx.nd.linalg, from the registry."""
