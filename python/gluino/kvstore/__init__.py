"""KVStore: values by key, summed over devices and ranks."""
from . import base, dist, kvstore, kvstore_server  # noqa: F401
from .base import *  # noqa: F401,F403
from .kvstore import *  # noqa: F401,F403
