"""Embeddings: vectors of words, from files on disk."""
import logging
import os

import numpy as np

from ... import ndarray as nd, registry
from ...base import FileError, data_dir
from ...util import is_np_array
from . import vocab

__all__ = ["register", "create", "get_pretrained_file_names", "GloVe", "FastText", "CustomEmbedding", "CompositeEmbedding"]


class _TokenEmbedding(vocab.Vocabulary):
    """A vocabulary whose words have vectors."""

    pretrained_file_names = ()

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._vec_len, self._idx_to_vec = 0, None

    @property
    def vec_len(self):
        """The length of the vectors."""
        return self._vec_len

    @property
    def idx_to_vec(self):
        """All vectors, by the numbers of words."""
        return self._idx_to_vec

    # ---- files

    @classmethod
    def _file(cls, pretrained_file_name, embedding_root):
        if pretrained_file_name not in cls.pretrained_file_names:
            raise KeyError(f"Cannot find pretrained file {pretrained_file_name} for token embedding {cls.__name__.lower()}. Valid pretrained files "
                           f"for embedding {cls.__name__.lower()}: {', '.join(cls.pretrained_file_names)}")
        folder = os.path.join(os.path.expanduser(embedding_root or os.path.join(data_dir(), "embeddings")), cls.__name__.lower())
        path = os.path.join(folder, pretrained_file_name)
        if not os.path.exists(path):
            raise FileError(f"{path}: not there, and nothing is downloaded; put the file into {folder}, or read any file with CustomEmbedding")
        return path

    def _load(self, path, elem_delim, init_unknown_vec, encoding="utf8"):
        """Reads lines "word number number ..."; a line with one number is a head, further lines of a word are left out."""
        vectors, unknown = [], None
        with open(path, encoding=encoding) as file:
            for number, line in enumerate(file, 1):
                token, *values = line.rstrip().split(elem_delim)
                if not values:
                    raise AssertionError(f"At line {number} of the pre-trained text embedding file: the data format of the file {path} is unexpected.")
                if token == self.unknown_token and unknown is None:
                    unknown = np.array(values, np.float32)
                elif token in self._token_to_idx:
                    logging.warning("At line %d of the pre-trained token embedding file: the embedding vector for token %s has been loaded and a "
                                    "duplicate embedding for the same token is seen and skipped.", number, token)
                elif len(values) == 1:
                    logging.warning("At line %d of the pre-trained text embedding file: token %s with 1-dimensional vector %s is likely a header and "
                                    "is skipped.", number, token, values)
                else:
                    if vectors and len(values) != len(vectors[0]):
                        raise AssertionError(f"At line {number} of the pre-trained token embedding file: the dimension of token {token} is "
                                             f"{len(values)} but the dimension of previous tokens is {len(vectors[0])}. Dimensions of all the tokens must be the same.")
                    self._token_to_idx[token] = len(self._idx_to_token)
                    self._idx_to_token.append(token)
                    vectors.append(np.array(values, np.float32))
        self._vec_len = len(vectors[0])
        table = nd.zeros((len(self), self._vec_len))
        table[len(self) - len(vectors):] = nd.array(np.stack(vectors))
        table[0] = nd.array(unknown) if unknown is not None else init_unknown_vec(shape=self._vec_len)
        self._idx_to_vec = table.as_np_ndarray() if is_np_array() else table

    def _restrict(self, vocabulary):
        """Keeps the vectors of a vocabulary's words, in its order."""
        if vocabulary is None:
            return
        if not isinstance(vocabulary, vocab.Vocabulary):
            raise AssertionError("The argument `vocabulary` must be an instance of Vocabulary or None.")
        table = self.get_vecs_by_tokens(vocabulary.idx_to_token)
        self._take_words(vocabulary)
        self._idx_to_vec = table

    def _take_words(self, vocabulary):
        self._token_to_idx, self._idx_to_token = dict(vocabulary.token_to_idx), list(vocabulary.idx_to_token)
        self._unknown_token = vocabulary.unknown_token
        self._reserved_tokens = None if vocabulary.reserved_tokens is None else list(vocabulary.reserved_tokens)

    # ---- vectors

    def get_vecs_by_tokens(self, tokens, lower_case_backup=False):
        """The vector of a word, or those of several; with lower_case_backup words that are unknown are looked for in small letters."""
        words = tokens if isinstance(tokens, list) else [tokens]
        numbers = [self.token_to_idx.get(word, self.token_to_idx.get(word.lower(), 0) if lower_case_backup else 0) for word in words]
        found = nd.Embedding(nd.array(numbers), self.idx_to_vec.as_nd_ndarray(), self.idx_to_vec.shape[0], self.idx_to_vec.shape[1])
        found = found.as_np_ndarray() if is_np_array() else found
        return found if isinstance(tokens, list) else found[0]

    def update_token_vectors(self, tokens, new_vectors):
        """Other vectors for known words."""
        if self.idx_to_vec is None:
            raise AssertionError("The property `idx_to_vec` has not been properly set.")
        words = tokens if isinstance(tokens, list) else [tokens]
        for word in words:
            if word not in self.token_to_idx:
                raise ValueError(f"Token {word} is unknown. To update the embedding vector for an unknown token, please specify it explicitly as the "
                                 f"`unknown_token` {self.idx_to_token[0]} in `tokens`. This is to avoid unintended updates.")
        vectors = new_vectors.reshape((-1, self.vec_len))
        if vectors.shape[0] != len(words):
            raise AssertionError("The length of new_vectors must be equal to the number of tokens.")
        for word, vector in zip(words, vectors):
            self._idx_to_vec[self.token_to_idx[word]] = vector


_register = registry.get_register_func(_TokenEmbedding, "token embedding")


def register(embedding_cls):
    """Makes an embedding known by the lower-case name of its class."""
    return _register(embedding_cls)


_create = registry.get_create_func(_TokenEmbedding, "token embedding")


def create(embedding_name, **kwargs):
    """An embedding by the name of its class: create('glove', pretrained_file_name='glove.6B.50d.txt')."""
    return _create(embedding_name, **kwargs)


def get_pretrained_file_names(embedding_name=None):
    """Names of files that an embedding knows; of all embeddings, by name, where none is given."""
    known = registry.get_registry(_TokenEmbedding)
    if embedding_name is None:
        return {name: list(cls.pretrained_file_names) for name, cls in known.items()}
    if embedding_name not in known:
        raise KeyError(f"Cannot find `embedding_name` {embedding_name}. Use `get_pretrained_file_names(embedding_name=None).keys()` to get all the "
                       "valid embedding names.")
    return list(known[embedding_name].pretrained_file_names)


@register
class GloVe(_TokenEmbedding):
    """Vectors of https://nlp.stanford.edu/projects/glove/."""

    pretrained_file_names = (*(f"glove.6B.{n}d.txt" for n in (50, 100, 200, 300)), "glove.42B.300d.txt", "glove.840B.300d.txt",
                             *(f"glove.twitter.27B.{n}d.txt" for n in (25, 50, 100, 200)))

    def __init__(self, pretrained_file_name="glove.840B.300d.txt", embedding_root=None, init_unknown_vec=nd.zeros, vocabulary=None, **kwargs):
        super().__init__(**kwargs)
        self._load(self._file(pretrained_file_name, embedding_root), " ", init_unknown_vec)
        self._restrict(vocabulary)


@register
class FastText(_TokenEmbedding):
    """Vectors of https://fasttext.cc."""

    pretrained_file_names = ("crawl-300d-2M.vec", "wiki-news-300d-1M.vec", "wiki-news-300d-1M-subword.vec", "wiki.simple.vec",
                             *(f"wiki.{language}.vec" for language in ("ar", "de", "en", "es", "fr", "it", "ja", "ko", "pt", "ru", "zh")))

    def __init__(self, pretrained_file_name="wiki.simple.vec", embedding_root=None, init_unknown_vec=nd.zeros, vocabulary=None, **kwargs):
        super().__init__(**kwargs)
        self._load(self._file(pretrained_file_name, embedding_root), " ", init_unknown_vec)
        self._restrict(vocabulary)


class CustomEmbedding(_TokenEmbedding):
    """Vectors of a file with lines "word number number ..."."""

    def __init__(self, pretrained_file_path, elem_delim=" ", encoding="utf8", init_unknown_vec=nd.zeros, vocabulary=None, **kwargs):
        super().__init__(**kwargs)
        self._load(os.path.expanduser(pretrained_file_path), elem_delim, init_unknown_vec, encoding)
        self._restrict(vocabulary)


class CompositeEmbedding(_TokenEmbedding):
    """The words of a vocabulary with the vectors of several embeddings, one after the other."""

    def __init__(self, vocabulary, token_embeddings):
        embeddings = token_embeddings if isinstance(token_embeddings, list) else [token_embeddings]
        for embedding in embeddings:
            if not isinstance(embedding, _TokenEmbedding):
                raise AssertionError("`token_embeddings` holds embeddings of mx.contrib.text")
        super().__init__()
        self._take_words(vocabulary)
        self._idx_to_vec = nd.concat(*[embedding.get_vecs_by_tokens(self.idx_to_token).as_nd_ndarray() for embedding in embeddings], dim=1)
        self._idx_to_vec = self._idx_to_vec.as_np_ndarray() if is_np_array() else self._idx_to_vec
        self._vec_len = self._idx_to_vec.shape[1]
