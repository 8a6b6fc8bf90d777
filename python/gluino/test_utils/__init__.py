"""Helpers for tests of operators and networks. Tests say `from mxnet.test_utils import *` and use what MXNet's module has imported too."""
# ruff: noqa: F401
import bz2
import errno
import gzip
import json
import logging
import numbers
import os
import platform
import struct
import sys
import time
import traceback
import zipfile
from collections import OrderedDict
from contextlib import contextmanager

import numpy as np
import numpy.random as rnd
import numpy.testing as npt

import gluino as mx

from ..context import Context, current_context
from ..ndarray import array
from ..ndarray.ndarray import _STORAGE_TYPE_STR_TO_ID
from ..numpy import _Symbol as np_symbol
from ..runtime import Features
from ..symbol import Symbol
from ..util import get_cuda_compute_capability, getenv, setenv, use_np
from .comparison import *  # noqa: F401,F403
from .environment import *  # noqa: F401,F403
from .files import *  # noqa: F401,F403
from .generators import *  # noqa: F401,F403
from .statistics import *  # noqa: F401,F403
from .symbols import *  # noqa: F401,F403
