"""Operators of mx.nd.image, from the registry."""
