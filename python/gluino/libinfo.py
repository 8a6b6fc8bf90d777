"""Where the library lies, and which version of MXNet the interface follows."""
import os

from . import _core

__all__ = ["find_lib_path", "find_include_path"]
__version__ = "1.9.1"


def find_lib_path(prefix="libgluino"):
    """The library that Python talks to, in a list."""
    return [os.path.realpath(_core.__file__)]


def find_include_path():
    """The folder of the C++ headers: in the checkout, or where `make install` put them."""
    place = os.path.dirname(os.path.realpath(__file__))
    while os.path.dirname(place) != place:
        if os.path.isfile(os.path.join(place, "include", "gluino", "gluino.h")):
            return os.path.join(place, "include")
        place = os.path.dirname(place)
    raise RuntimeError("the headers of Gluino lie in no folder above the package; they come with `make install`")
