"""Counting words."""
import collections
import re

__all__ = ["count_tokens_from_str"]


def count_tokens_from_str(source_str, token_delim=" ", seq_delim="\n", to_lower=False, counter_to_update=None):
    """How often each token is in a text, whose tokens and sequences are divided by these patterns."""
    tokens = [token for token in re.split(f"{token_delim}|{seq_delim}", source_str) if token]
    counter = collections.Counter() if counter_to_update is None else counter_to_update
    counter.update(token.lower() for token in tokens) if to_lower else counter.update(tokens)
    return counter
