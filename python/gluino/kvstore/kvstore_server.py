"""The server of distributed training, which this build has not."""
from ..base import MXNetError

__all__ = ["KVStoreServer"]


class KVStoreServer:
    """Its run() raises: training runs in one process."""

    def __init__(self, kvstore):
        self.kvstore = kvstore

    def run(self):
        """Raises."""
        raise MXNetError("there are no servers: this build trains in one process; use kvstore 'local' or 'device'")
