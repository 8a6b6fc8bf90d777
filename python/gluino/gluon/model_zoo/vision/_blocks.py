"""What several networks of the zoo share."""
from ...hybrid_block import HybridBlock
from ... import nn

__all__ = ["Features", "sequence"]


class Features(HybridBlock):
    """features, then output."""

    def hybrid_forward(self, F, x):
        return self.output(self.features(x))


def sequence(*layers):
    out = nn.HybridSequential(prefix="")
    out.add(*layers)
    return out
