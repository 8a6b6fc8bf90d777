"""Words: counting, vocabularies, embeddings from files."""
from . import embedding, utils, vocab  # noqa: F401

__all__ = ["utils", "vocab", "embedding"]
