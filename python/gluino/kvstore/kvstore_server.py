"""The server of distributed training, which there is none of: ranks exchange gradients among themselves."""
from ..base import MXNetError

__all__ = ["KVStoreServer"]


class KVStoreServer:
    """Its run() raises."""

    def __init__(self, kvstore):
        self.kvstore = kvstore

    def run(self):
        """Raises."""
        raise MXNetError("there are no servers: ranks exchange gradients among themselves; start them with mpirun, or gluino launch")
