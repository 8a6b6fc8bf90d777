"""Networks ready made."""
from . import vision
from .vision import get_model  # noqa: F401
