"""Images: decoding, cropping, augmenting, iterators over them."""
from . import detection, detection as det, image  # noqa: F401
from .image import *  # noqa: F401,F403
from .detection import *  # noqa: F401,F403
