"""Networks ready made."""
from . import model_store, vision  # noqa: F401
from .vision import get_model  # noqa: F401
