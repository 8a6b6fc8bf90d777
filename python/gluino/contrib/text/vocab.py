"""Vocabulary: numbers of words."""
import collections

__all__ = ["Vocabulary"]


class Vocabulary:
    """Words by their frequency: the unknown word is number 0, reserved ones follow, then all others, the most frequent first."""

    def __init__(self, counter=None, most_freq_count=None, min_freq=1, unknown_token="<unk>", reserved_tokens=None):
        if min_freq <= 0:
            raise AssertionError("`min_freq` must be set to a positive value.")
        reserved = list(reserved_tokens or [])
        if unknown_token in reserved:
            raise AssertionError("`reserved_token` cannot contain `unknown_token`.")
        if len(set(reserved)) != len(reserved):
            raise AssertionError("`reserved_tokens` cannot contain duplicate reserved tokens.")
        self._unknown_token, self._reserved_tokens = unknown_token, reserved if reserved_tokens is not None else None
        self._idx_to_token = [unknown_token, *reserved]
        self._token_to_idx = {token: number for number, token in enumerate(self._idx_to_token)}
        if counter is not None:
            self._index(counter, most_freq_count, min_freq)

    def _index(self, counter, most_freq_count, min_freq):
        if not isinstance(counter, collections.Counter):
            raise AssertionError("`counter` must be an instance of collections.Counter.")
        ordered = sorted(sorted(counter.items()), key=lambda pair: pair[1], reverse=True)
        room = len(counter) if most_freq_count is None else most_freq_count
        for token, count in ordered:
            if count < min_freq or room == 0:
                break
            if token not in self._token_to_idx:
                self._token_to_idx[token] = len(self._idx_to_token)
                self._idx_to_token.append(token)
                room -= 1

    def __len__(self):
        return len(self._idx_to_token)

    @property
    def token_to_idx(self):
        """Numbers by word."""
        return self._token_to_idx

    @property
    def idx_to_token(self):
        """Words by number."""
        return self._idx_to_token

    @property
    def unknown_token(self):
        """The word that stands for all others."""
        return self._unknown_token

    @property
    def reserved_tokens(self):
        """Words that are there in any case."""
        return self._reserved_tokens

    def to_indices(self, tokens):
        """The number of a word, or those of several; 0 for unknown ones."""
        found = [self._token_to_idx.get(token, 0) for token in (tokens if isinstance(tokens, list) else [tokens])]
        return found if isinstance(tokens, list) else found[0]

    def to_tokens(self, indices):
        """The word of a number, or those of several."""
        numbers = indices if isinstance(indices, list) else [indices]
        for number in numbers:
            if not isinstance(number, int) or number >= len(self._idx_to_token):
                raise ValueError(f"Token index {number} in the provided `indices` is invalid.")
        found = [self._idx_to_token[number] for number in numbers]
        return found if isinstance(indices, list) else found[0]
