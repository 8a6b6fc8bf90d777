"""Data sets for language models, from files on disk."""
import os

import numpy as np

from .... import ndarray as nd
from ....base import FileError, data_dir
from ...data.dataset import SimpleDataset

__all__ = ["WikiText2", "WikiText103"]


class _WikiText(SimpleDataset):
    """Pieces of seq_len words of a text, each with the words that follow it."""

    _name, _end = None, "<eos>"

    def __init__(self, root, segment, vocab, seq_len):
        from ....contrib.text import utils, vocab as vocabularies
        folder = os.path.expanduser(root or os.path.join(data_dir(), "datasets", self._name))
        names = {"train": "wiki.train.tokens", "validation": "wiki.valid.tokens", "test": "wiki.test.tokens"}
        if segment not in names:
            raise ValueError(f"segment is one of {', '.join(names)}, not {segment!r}")
        path = os.path.join(folder, names[segment])
        if not os.path.exists(path):
            raise FileError(f"{path}: not there, and nothing is downloaded; put {', '.join(names.values())} of {self._name} into {folder}")
        with open(path, encoding="utf8") as file:
            content = file.read()
        words = [word for line in content.splitlines() if line.strip() for word in (*line.split(), self._end)]
        self._counter = utils.count_tokens_from_str(content)
        self._vocab = vocab or vocabularies.Vocabulary(counter=self._counter, reserved_tokens=[self._end])
        numbers = np.array(self._vocab.to_indices(words), np.int32)
        pieces = (len(numbers) - 1) // seq_len
        data, label = (numbers[shift:shift + pieces * seq_len].reshape(pieces, seq_len) for shift in (0, 1))
        super().__init__([(nd.array(x, dtype=np.int32), nd.array(y, dtype=np.int32)) for x, y in zip(data, label)])

    @property
    def vocabulary(self):
        """The vocabulary."""
        return self._vocab

    @property
    def frequencies(self):
        """How often each word is there."""
        return self._counter


class WikiText2(_WikiText):
    """WikiText-2 (Merity et al., 2016)."""

    _name = "wikitext-2"

    def __init__(self, root=None, segment="train", vocab=None, seq_len=35):
        super().__init__(root, segment, vocab, seq_len)


class WikiText103(_WikiText):
    """WikiText-103."""

    _name = "wikitext-103"

    def __init__(self, root=None, segment="train", vocab=None, seq_len=35):
        super().__init__(root, segment, vocab, seq_len)
