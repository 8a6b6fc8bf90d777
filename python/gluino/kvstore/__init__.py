"""KVStore: values by key, summed over devices."""
from . import base, kvstore, kvstore_server  # noqa: F401
from .base import *  # noqa: F401,F403
from .kvstore import *  # noqa: F401,F403
