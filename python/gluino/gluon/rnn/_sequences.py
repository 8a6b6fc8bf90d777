"""Sequences and states by the names under which cells of other libraries work on them."""
from ... import ndarray as nd, symbol as sym
from ..parameter import tensor_types

__all__ = ["_cells_begin_state", "_cells_state_info", "_format_sequence", "_get_begin_state", "_mask_sequence_variable_length", "_reverse_sequences"]


def _functions_of(sequence):
    first = sequence if isinstance(sequence, tensor_types) else sequence[0]
    return sym if isinstance(first, sym.Symbol) else nd


def _split(F, sequence, length, axis):
    parts = F.split(sequence, num_outputs=length, axis=axis, squeeze_axis=True)
    return list(parts) if length > 1 else [parts]


def _cells_state_info(cells, batch_size):
    return [info for cell in cells for info in cell.state_info(batch_size)]


def _cells_begin_state(cells, **kwargs):
    return [state for cell in cells for state in cell.begin_state(**kwargs)]


def _get_begin_state(cell, F, begin_state, inputs, batch_size):
    """The states given, or zeros where the inputs are."""
    if begin_state is not None:
        return begin_state
    if F is sym:
        return cell.begin_state(func=F.zeros, batch_size=batch_size)
    with (inputs if isinstance(inputs, tensor_types) else inputs[0]).context:
        return cell.begin_state(func=F.zeros, batch_size=batch_size)


def _format_sequence(length, inputs, layout, merge, in_layout=None):
    """(steps as one value, as a list, or as they came; axis of time; the functions for them; size of the batch, 0 where it is not known)."""
    if inputs is None:
        raise AssertionError("unroll(inputs=None) has been deprecated. Please create input variables outside unroll.")
    axis, F, is_one = layout.find("T"), _functions_of(inputs), isinstance(inputs, tensor_types)
    given = (in_layout or layout).find("T") if is_one else axis
    if not is_one and length is not None and len(inputs) != length:
        raise AssertionError(f"{len(inputs)} inputs for {length} steps")
    batch = 0 if F is sym else inputs.shape[(in_layout or layout).find("N")] if is_one else inputs[0].shape[layout.replace("T", "").find("N")]
    if is_one and merge is False:
        return _split(F, inputs, length, given), axis, F, batch
    if not is_one and merge is True:
        inputs = F.stack(*inputs, axis=axis)
    if is_one and given != axis:
        inputs = F.swapaxes(inputs, dim1=axis, dim2=given)
    return inputs, axis, F, batch


def _mask_sequence_variable_length(F, data, length, valid_length, time_axis, merge):
    """Zeros behind the ends of the sequences."""
    if valid_length is None:
        raise AssertionError("valid_length is needed")
    data = data if isinstance(data, tensor_types) else F.stack(*data, axis=time_axis)
    masked = F.SequenceMask(data, valid_length, use_sequence_length=True, axis=time_axis)
    return masked if merge else _split(F, masked, length, time_axis)


def _reverse_sequences(sequences, unroll_step, valid_length=None):
    """The steps from the last to the first, each sequence from its own end."""
    if valid_length is None:
        return list(reversed(sequences))
    F = _functions_of(sequences)
    turned = F.SequenceReverse(F.stack(*sequences, axis=0), valid_length, use_sequence_length=True)
    return _split(F, turned, unroll_step, 0)
