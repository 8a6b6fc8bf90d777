"""A sample of every layer and loss of the Python package: how one is made, and what it is called with. Tests walk over them."""
import gluino as mx
from gluino import gluon, nd
from gluino.gluon import contrib, loss, nn, rnn

# What only others are made of, or what wants more than a call: no samples of their own.
BASES = {"Block", "HybridBlock", "SymbolBlock", "Loss", "RecurrentCell", "HybridRecurrentCell", "ModifierCell"}


def _filled(layer):
    layer.add(nn.Dense(3), nn.Dense(4))
    return layer


def _cells(cell):
    cell.add(rnn.LSTMCell(3))
    cell.add(rnn.GRUCell(4))
    return cell


def _arrays(*shapes):
    return lambda: [nd.random.uniform(0.1, 0.9, shape=shape) for shape in shapes]


def _indices(*shape):
    return lambda: [nd.arange(0, 6).reshape(shape)]


def _class_labels():
    return [nd.random.uniform(shape=(4, 5)), nd.array([0, 1, 2, 1])]


def _symbol_block():
    return gluon.SymbolBlock(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc"), mx.sym.var("data"))


def _layers():
    spaces = {1: (2, 3, 8), 2: (2, 3, 8, 8), 3: (2, 3, 8, 8, 8)}
    found = {}
    for axes, shape in spaces.items():
        for name in (f"Conv{axes}D", f"Conv{axes}DTranspose"):
            found[name] = (lambda make=getattr(nn, name): make(4, 3)), _arrays(shape)
        for name in (f"MaxPool{axes}D", f"AvgPool{axes}D", f"GlobalMaxPool{axes}D", f"GlobalAvgPool{axes}D"):
            found[name] = getattr(nn, name), _arrays(shape)
    for name in ("ELU", "GELU", "SELU", "SiLU", "Swish", "PReLU", "Flatten", "Identity", "LayerNorm"):
        found[name] = getattr(nn, name), _arrays((4, 5))
    for name in ("BatchNorm", "BatchNormReLU", "SyncBatchNorm", "GroupNorm", "InstanceNorm", "ReflectionPad2D"):
        found[name] = (lambda make=getattr(nn, name), name=name: make(padding=1) if name == "ReflectionPad2D" else make()), _arrays((2, 3, 8, 8))
    for name in ("Sequential", "HybridSequential", "Concatenate", "HybridConcatenate"):
        found[name] = (lambda make=getattr(nn, name): _filled(make())), _arrays((4, 5))
    return {**found, "Dense": (lambda: nn.Dense(3, activation="relu"), _arrays((4, 5))), "Activation": (lambda: nn.Activation("tanh"), _arrays((4, 5))),
            "LeakyReLU": (lambda: nn.LeakyReLU(0.1), _arrays((4, 5))), "Dropout": (lambda: nn.Dropout(0.5), _arrays((4, 5))),
            "Embedding": (lambda: nn.Embedding(10, 3), _indices(2, 3)), "Lambda": (lambda: nn.Lambda("tanh"), _arrays((4, 5))),
            "HybridLambda": (lambda: nn.HybridLambda(lambda F, x: F.relu(x)), _arrays((4, 5)))}


def _recurrent():
    found = {name: ((lambda make=getattr(rnn, name): make(3, 2)), _arrays((5, 2, 4))) for name in ("RNN", "LSTM", "GRU")}
    cells = {name: (lambda make=getattr(rnn, name): make(3)) for name in ("RNNCell", "LSTMCell", "GRUCell")}
    cells.update(SequentialRNNCell=lambda: _cells(rnn.SequentialRNNCell()), HybridSequentialRNNCell=lambda: _cells(rnn.HybridSequentialRNNCell()),
                 DropoutCell=lambda: rnn.DropoutCell(0.3), ZoneoutCell=lambda: rnn.ZoneoutCell(rnn.LSTMCell(4), 0.2, 0.2),
                 ResidualCell=lambda: rnn.ResidualCell(rnn.GRUCell(4)), BidirectionalCell=lambda: rnn.BidirectionalCell(rnn.LSTMCell(3), rnn.LSTMCell(3)),
                 VariationalDropoutCell=lambda: contrib.rnn.VariationalDropoutCell(rnn.LSTMCell(3), 0.2, 0.2, 0.2),
                 LSTMPCell=lambda: contrib.rnn.LSTMPCell(4, 3))
    found.update({name: (make, _arrays((2, 5, 4))) for name, make in cells.items()})
    for axes, shape in ((1, (3, 8)), (2, (3, 8, 8)), (3, (3, 8, 8, 8))):
        for kind in ("RNN", "LSTM", "GRU"):
            make = getattr(contrib.rnn, f"Conv{axes}D{kind}Cell")
            found[f"Conv{axes}D{kind}Cell"] = (lambda make=make, shape=shape: make(shape, 4, 3, 3, 1)), _arrays((2, 2, *shape))
    return found


def _contributed():
    found = {f"PixelShuffle{axes}D": ((lambda make=getattr(contrib.nn, f"PixelShuffle{axes}D"): make(2)), _arrays((2, 8, *[4] * axes))) for axes in (1, 2, 3)}
    for name in ("Concurrent", "HybridConcurrent"):
        found[name] = (lambda make=getattr(contrib.nn, name): _filled(make())), _arrays((4, 5))
    for name in ("DeformableConvolution", "ModulatedDeformableConvolution"):
        found[name] = (lambda make=getattr(contrib.cnn, name): make(4, 3, padding=1)), _arrays((1, 3, 8, 8))
    return {**found, "SparseEmbedding": (lambda: contrib.nn.SparseEmbedding(10, 3), _indices(2, 3))}


def _losses():
    pairs = {name: (getattr(loss, name), _arrays((4, 5), (4, 5))) for name in loss.__all__ if name != "Loss"}
    return {**pairs, "SoftmaxCrossEntropyLoss": (loss.SoftmaxCrossEntropyLoss, _class_labels), "SoftmaxCELoss": (loss.SoftmaxCELoss, _class_labels),
            "TripletLoss": (loss.TripletLoss, _arrays((4, 5), (4, 5), (4, 5))),
            "CosineEmbeddingLoss": (loss.CosineEmbeddingLoss, _arrays((4, 5), (4, 5), (4, 1))),
            "CTCLoss": (loss.CTCLoss, lambda: [nd.random.uniform(shape=(2, 6, 5)), nd.array([[1, 2], [0, 3]])])}


LAYERS, RECURRENT, LOSSES = {**_layers(), **_contributed(), "SymbolBlock": (_symbol_block, _arrays((4, 5)))}, _recurrent(), _losses()
SAMPLES = {**LAYERS, **RECURRENT, **LOSSES}


def all_classes():
    """Names of all layers and losses that the package shows."""
    modules = (nn, rnn, loss, contrib.nn, contrib.rnn, contrib.cnn)
    return {name for module in modules for name, value in vars(module).items() if isinstance(value, type) and issubclass(value, gluon.Block)}


def run(block, inputs):
    """A call; cells are unrolled."""
    if isinstance(block, rnn.RecurrentCell):
        return block.unroll(inputs[0].shape[1], inputs[0], merge_outputs=True)[0]
    return block(*inputs)
