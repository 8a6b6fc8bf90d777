"""Samplers: the order in which items are taken."""
import numpy as _np

__all__ = ["Sampler", "SequentialSampler", "RandomSampler", "BatchSampler", "FilterSampler", "IntervalSampler", "SplitSampler"]


class Sampler:
    """The base of samplers."""

    def __iter__(self):
        raise NotImplementedError

    def __len__(self):
        raise NotImplementedError


class SequentialSampler(Sampler):
    """In order."""

    def __init__(self, length, start=0):
        self._length, self._start = length, start

    def __iter__(self):
        return iter(range(self._start, self._start + self._length))

    def __len__(self):
        return self._length


class RandomSampler(Sampler):
    """In a random order."""

    def __init__(self, length):
        self._length = length

    def __iter__(self):
        return iter(_np.random.permutation(self._length).tolist())

    def __len__(self):
        return self._length


class SplitSampler(Sampler):
    """One part of the numbers below length, in a random order: those of all parts together are the whole, none overlap.

    As in MXNet's examples of training on several machines. The last numbers that would make parts uneven are left out. With a seed the order
    is the same for all parts and another in each epoch, so that what all parts take in one step lies together, as one process would take it.
    """

    def __init__(self, length, num_parts=1, part_index=0, seed=None):
        if not 0 <= part_index < num_parts:
            raise ValueError(f"SplitSampler: part {part_index} of {num_parts} does not exist; parts are numbered from 0 on")
        self._part_len, self._parts, self._part, self._seed, self._epoch = length // num_parts, num_parts, part_index, seed, 0

    def __iter__(self):
        if self._seed is None:
            return iter((self._part * self._part_len + _np.random.permutation(self._part_len)).tolist())
        order = _np.random.RandomState([self._seed, self._epoch]).permutation(self._part_len * self._parts)
        self._epoch += 1
        return iter(order[self._part::self._parts].tolist())

    def __len__(self):
        return self._part_len


class FilterSampler(Sampler):
    """Those for which fn holds."""

    def __init__(self, fn, dataset):
        self._indices = [i for i, sample in enumerate(dataset[i] for i in range(len(dataset))) if fn(sample)]

    def __iter__(self):
        return iter(self._indices)

    def __len__(self):
        return len(self._indices)


class IntervalSampler(Sampler):
    """Every so many, then from the next start."""

    def __init__(self, length, interval, rollover=True):
        if interval > length:
            raise AssertionError(f"Interval {interval} must be smaller than or equal to length {length}")
        self._numbers = [i for start in range(interval if rollover else 1) for i in range(start, length, interval)]

    def __iter__(self):
        return iter(self._numbers)

    def __len__(self):
        return len(self._numbers)


class BatchSampler(Sampler):
    """Lists of numbers; the last one is kept, discarded, or starts the next round."""

    def __init__(self, sampler, batch_size, last_batch="keep"):
        if last_batch not in ("keep", "discard", "rollover"):
            raise ValueError(f"last_batch must be one of 'keep', 'discard', or 'rollover', but got {last_batch}")
        self._sampler, self._batch_size, self._last_batch, self._left = sampler, batch_size, last_batch, []

    def __iter__(self):
        batch, self._left = self._left, []
        for number in self._sampler:
            batch.append(number)
            if len(batch) == self._batch_size:
                yield batch
                batch = []
        if batch and self._last_batch == "keep":
            yield batch
        elif batch and self._last_batch == "rollover":
            self._left = batch

    def __len__(self):
        count = len(self._sampler) + len(self._left)
        return -(-count // self._batch_size) if self._last_batch == "keep" else count // self._batch_size
