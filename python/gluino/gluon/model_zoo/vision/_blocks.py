"""What several networks of the zoo share. Their numbers are those of the library's tables."""
from ...hybrid_block import HybridBlock
from ... import nn
from .... import _core

__all__ = ["Features", "chain", "depths", "sequence"]


class Features(HybridBlock):
    """features, then output."""

    def hybrid_forward(self, F, x):
        return self.output(self.features(x))


def sequence(*layers):
    out = nn.HybridSequential(prefix="")
    out.add(*layers)
    return out


def chain(family):
    """Layers one after the other, convolutions and dense ones with relu."""
    out = nn.HybridSequential(prefix="")
    make = {"Conv2D": lambda *n: nn.Conv2D(*n, activation="relu"), "MaxPool2D": nn.MaxPool2D, "Flatten": nn.Flatten,
            "Dense": lambda units: nn.Dense(units, activation="relu"), "Dropout": lambda: nn.Dropout(0.5)}
    with out.name_scope():
        for kind, numbers in _core.zoo_table(family):
            out.add(make[kind](*numbers))
    return out


def depths(family):
    """The numbers of the networks of a family, by depth."""
    return {int(name): numbers for name, numbers in _core.zoo_table(family) if name.isdigit()}
