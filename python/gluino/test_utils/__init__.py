"""Helpers for tests of operators and networks. Tests say `from mxnet.test_utils import *` and use mx and np from here too."""
import numpy as np  # noqa: F401

import gluino as mx  # noqa: F401

from .comparison import *  # noqa: F401,F403
from .environment import *  # noqa: F401,F403
from .files import *  # noqa: F401,F403
from .generators import *  # noqa: F401,F403
from .statistics import *  # noqa: F401,F403
from .symbols import *  # noqa: F401,F403
