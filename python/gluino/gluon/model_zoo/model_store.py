"""Where the weights of the zoo's networks are looked for: files that were put there, since nothing is downloaded."""
import glob
import os

from ...base import FileError, data_dir
from ..utils import check_sha1

__all__ = ["get_model_file", "purge", "short_hash"]

_model_sha1 = {}  # by the networks' names; libraries enter theirs


def _folder(root):
    return os.path.expanduser(root or os.path.join(data_dir(), "models"))


def _hashed(name, folder):
    return sorted(glob.glob(os.path.join(glob.escape(folder), f"{glob.escape(name)}-????????.params")))


def short_hash(name):
    """The eight characters behind a network's name in the name of its file of weights."""
    if name in _model_sha1:
        return _model_sha1[name][:8]
    found = _hashed(name, _folder(None))
    if not found:
        raise ValueError(f"Pretrained model for {name} is not available: {_folder(None)} has no {name}-XXXXXXXX.params")
    return found[-1][-len("XXXXXXXX.params"):-len(".params")]


def get_model_file(name, root=None):
    """The file with the weights of a network, in the folder where MXNet keeps them: NAME-HASH.params or NAME.params."""
    folder = _folder(root)
    exact, entered = (os.path.join(folder, f"{known}.params") for known in (name, f"{name}-{_model_sha1.get(name, '')[:8]}"))
    if name in _model_sha1 and os.path.exists(entered):
        if not check_sha1(entered, _model_sha1[name]):
            raise FileError(f"{entered} is damaged: its SHA-1 is not {_model_sha1[name]}, which is entered for '{name}'")
        return entered
    found = [exact] if os.path.exists(exact) else _hashed(name, folder)
    if not found:
        raise FileError(f"the weights of '{name}' are not downloaded: put MXNet's file {name}-XXXXXXXX.params, or one of your own as {name}.params, "
                        f"into {folder} (or say root=), or load any .params file with load_parameters")
    return found[-1]


def purge(root=None):
    """Removes all .params files of the folder."""
    for path in glob.glob(os.path.join(glob.escape(_folder(root)), "*.params")):
        os.remove(path)


def with_weights(net, name, pretrained, ctx, root):
    """The network; pretrained, with the weights of its file."""
    if pretrained:
        net.load_parameters(get_model_file(name, root), ctx=ctx)
    return net
