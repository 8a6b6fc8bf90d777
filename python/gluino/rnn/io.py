"""Sentences as batches of the same length."""
import bisect
import random

import numpy as np

from .. import ndarray
from ..io import DataBatch, DataDesc, DataIter

__all__ = ["BucketSentenceIter", "encode_sentences"]


def encode_sentences(sentences, vocab=None, invalid_label=-1, invalid_key="\n", start_label=0, unknown_token=None):
    """(sentences as lists of numbers, vocabulary); words get numbers as they come up, unless a vocabulary is given."""
    number, grows = start_label, vocab is None
    vocab = {invalid_key: invalid_label} if grows else vocab
    encoded = []
    for sentence in sentences:
        line = []
        for word in sentence:
            if word not in vocab:
                if not grows and unknown_token is None:
                    raise AssertionError(f"Unknown token {word}")
                if unknown_token is not None:
                    word = unknown_token
                if word not in vocab:
                    number += number == invalid_label
                    vocab[word] = number
                    number += 1
            line.append(vocab[word])
        encoded.append(line)
    return encoded, vocab


class BucketSentenceIter(DataIter):
    """Batches of encoded sentences of about the same length; the label is the sentence moved by one word."""

    def __init__(self, sentences, batch_size, buckets=None, invalid_label=-1, data_name="data", label_name="softmax_label", dtype="float32", layout="NT"):
        super().__init__(batch_size)
        if not buckets:
            buckets = [length for length, count in enumerate(np.bincount([len(s) for s in sentences])) if count >= batch_size]
        buckets = sorted(buckets)
        if layout not in ("NT", "TN"):
            raise ValueError(f"Invalid layout {layout}: Must by NT (batch major) or TN (time major)")
        rows = [[] for _ in buckets]
        for sentence in sentences:
            place = bisect.bisect_left(buckets, len(sentence))
            if place < len(buckets):  # longer ones are left out
                rows[place].append([*sentence, *[invalid_label] * (buckets[place] - len(sentence))])
        self.data = [np.asarray(part, dtype=dtype).reshape(-1, length) for part, length in zip(rows, buckets)]
        self.buckets, self.invalid_label, self.dtype, self.layout = buckets, invalid_label, dtype, layout
        self.data_name, self.label_name, self.major_axis = data_name, label_name, layout.find("N")
        self.default_bucket_key = max(buckets)
        self.provide_data, self.provide_label = self._described(data_name, self.default_bucket_key), self._described(label_name, self.default_bucket_key)
        self.idx = [(i, j) for i, part in enumerate(self.data) for j in range(0, len(part) - batch_size + 1, batch_size)]
        self.reset()

    def _described(self, name, length):
        shape = (self.batch_size, length) if self.major_axis == 0 else (length, self.batch_size)
        return [DataDesc(name, shape, layout=self.layout)]

    def reset(self):
        """Starts again, in another order."""
        self.curr_idx = 0
        random.shuffle(self.idx)
        self.nddata, self.ndlabel = [], []
        for part in self.data:
            np.random.shuffle(part)
            following = np.concatenate([part[:, 1:], np.full((len(part), 1), self.invalid_label, part.dtype)], axis=1)
            self.nddata.append(ndarray.array(part, dtype=self.dtype))
            self.ndlabel.append(ndarray.array(following, dtype=self.dtype))

    def next(self):
        """The next batch, with the length as its bucket_key."""
        if self.curr_idx == len(self.idx):
            raise StopIteration
        i, j = self.idx[self.curr_idx]
        self.curr_idx += 1
        data, label = (part[i][j:j + self.batch_size] for part in (self.nddata, self.ndlabel))
        if self.major_axis == 1:
            data, label = data.T, label.T
        length = self.buckets[i]
        return DataBatch([data], [label], pad=0, bucket_key=length, provide_data=self._described(self.data_name, length),
                         provide_label=self._described(self.label_name, length))
