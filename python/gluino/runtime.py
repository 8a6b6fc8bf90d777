"""What this build can do."""
import collections

__all__ = ["Feature", "Features", "feature_list"]

Feature = collections.namedtuple("Feature", ["name", "enabled"])
_FEATURES = {"CPU_SSE": True, "CPU_AVX2": True, "OPENMP": True, "BLAS_OPEN": True, "LAPACK": True, "MKLDNN": True, "ONEDNN": True, "F16C": True,
             "INT64_TENSOR_SIZE": True, "SIGNAL_HANDLER": False, "CUDA": False, "CUDNN": False, "NCCL": False, "TENSORRT": False, "OPENCV": False,
             "DIST_KVSTORE": False, "DEBUG": False}


class Features(collections.OrderedDict):
    """Features by name."""

    instance = None

    def __init__(self):
        super().__init__((name, Feature(name, enabled)) for name, enabled in _FEATURES.items())

    def __repr__(self):
        return str(list(self.values()))

    def is_enabled(self, feature_name):
        """Whether a feature is there."""
        name = feature_name.upper()
        if name not in self:
            raise RuntimeError(f"Feature '{name}' is unknown, known features are: {list(self.keys())}")
        return self[name].enabled


def feature_list():
    """All features."""
    return list(Features().values())
