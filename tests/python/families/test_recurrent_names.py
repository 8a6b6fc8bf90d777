"""Recurrent cells: what operators of unrolled cells are called in a graph, as MXNet's, and cells around cells."""
import numpy as np
import pytest

import gluino as mx
from gluino import sym
from gluino.gluon import contrib, rnn

STEPS = [sym.var(f"step{i}") for i in range(3)]


def outputs_of(cell, steps=STEPS, **options):
    outputs, _ = cell.unroll(len(steps), steps, **options)
    return (outputs if isinstance(outputs, sym.Symbol) else sym.Group(outputs)).list_outputs()


@pytest.mark.parametrize("cell", [
    rnn.RNNCell(4, prefix="rnn_"), rnn.LSTMCell(4, prefix="rnn_"), rnn.GRUCell(4, prefix="rnn_"), contrib.rnn.LSTMPCell(4, 2, prefix="rnn_"),
    *(kind((2, 8, 8), 4, 3, 3, prefix="rnn_") for kind in (contrib.rnn.Conv2DRNNCell, contrib.rnn.Conv2DLSTMCell, contrib.rnn.Conv2DGRUCell))],
    ids=lambda cell: type(cell).__name__)
def test_steps_have_names_of_their_own(cell):
    assert outputs_of(cell) == ["rnn_t0_out_output", "rnn_t1_out_output", "rnn_t2_out_output"]
    assert outputs_of(cell) == ["rnn_t0_out_output", "rnn_t1_out_output", "rnn_t2_out_output"], "unroll() starts anew"
    inside = sym.Group(cell.unroll(2, STEPS[:2])[0]).get_internals().list_outputs()
    assert {"rnn_t0_i2h_output", "rnn_t1_h2h_output"} <= set(inside)
    assert len(set(inside)) == len(inside) or type(cell).__module__.startswith("gluino.gluon.contrib"), "where MXNet leaves some without a name"
    assert sorted(cell.collect_params())[:2] == ["rnn_h2h_bias", "rnn_h2h_weight"]


def test_cells_around_cells():
    both = rnn.BidirectionalCell(rnn.LSTMCell(4, prefix="l_"), rnn.LSTMCell(4, prefix="r_"), output_prefix="bi_")
    assert outputs_of(both) == ["bi_t0_output", "bi_t1_output", "bi_t2_output"]
    assert outputs_of(both, merge_outputs=True) == ["bi_out_output"]
    stack = rnn.SequentialRNNCell()
    for i in range(2):
        stack.add(rnn.LSTMCell(4, prefix=f"layer{i}_"))
    assert outputs_of(stack) == ["layer1_t0_out_output", "layer1_t1_out_output", "layer1_t2_out_output"]
    assert rnn.ZoneoutCell(rnn.RNNCell(4, prefix="rnn_"), 0.5).prefix == "rnn_zoneout"
    assert rnn.DropoutCell(0.5, prefix="d_")(STEPS[0], [])[0].name == "d_t0_fwd"


def test_numbers_and_kinds_of_variables():
    with mx.name.NameManager():
        assert (-sym.var("x")).name == "_mulscalar0"
    weight = sym.var("weight", stype="row_sparse")
    assert weight.attr("__storage_type__") == "1"
    executor = sym.dot(sym.var("data", stype="csr"), weight).simple_bind(mx.cpu(), data=(2, 3), weight=(3, 4))
    assert executor.arg_dict["data"].stype == "csr" and executor.arg_dict["weight"].stype == "row_sparse"
    executor = sym.dot(sym.var("data"), weight).simple_bind(mx.cpu(), data=(2, 3), weight=(3, 4), stype_dict={"weight": "default", "data": "csr"})
    assert executor.arg_dict["data"].stype == "csr" and executor.arg_dict["weight"].stype == "default"
    executor.arg_dict["data"][:] = mx.nd.array([[1, 0, 2], [0, 0, 3]]).tostype("csr")
    executor.arg_dict["weight"][:] = 1
    assert executor.forward()[0].asnumpy().tolist() == [[3] * 4] * 2


@pytest.mark.parametrize("cell", [mx.rnn.RNNCell(4, prefix="rnn_"), mx.rnn.LSTMCell(4, prefix="rnn_"), mx.rnn.GRUCell(4, prefix="rnn_"),
                                  mx.rnn.ConvLSTMCell((1, 2, 8, 8), 4, prefix="rnn_"), mx.rnn.ConvGRUCell((1, 2, 8, 8), 4, prefix="rnn_")],
                         ids=lambda cell: type(cell).__name__)
def test_cells_of_symbols(cell):
    assert outputs_of(cell) == ["rnn_t0_out_output", "rnn_t1_out_output", "rnn_t2_out_output"]


def test_residual_cells_of_symbols():
    assert outputs_of(mx.rnn.ResidualCell(mx.rnn.GRUCell(4, prefix="rnn_")), STEPS[:2]) == ["rnn_t0_out_plus_residual_output",
                                                                                           "rnn_t1_out_plus_residual_output"]


def test_operators_of_several_inputs_make_variables_for_those_that_are_missing():
    assert sym.Concat(num_args=2, name="joined").list_arguments() == ["joined_arg0", "joined_arg1"]
    assert sym.Concat(sym.var("x"), num_args=3, name="joined").list_arguments() == ["x", "joined_arg1", "joined_arg2"]
    assert sym.ElementWiseSum(num_args=2, name="sum").infer_shape(sum_arg0=(2, 3), sum_arg1=(2, 3))[1] == [(2, 3)]
    assert sym.concat(sym.var("x"), sym.var("y"), dim=0).list_arguments() == ["x", "y"]
    with pytest.raises(mx.base.MXNetError):
        sym.Concat(num_args=10 ** 9)


@pytest.mark.parametrize("lengths", [None, [1, 3]])
@pytest.mark.parametrize("merge", [True, False, None])
def test_what_cannot_be_stepped_may_stand_in_a_residual_cell(merge, lengths):
    inner = rnn.BidirectionalCell(rnn.GRUCell(3), rnn.GRUCell(3))
    cell, x = rnn.ResidualCell(inner), mx.nd.random.uniform(shape=(2, 3, 6))
    cell.initialize()
    lengths = None if lengths is None else mx.nd.array(lengths)
    found = cell.unroll(3, x, merge_outputs=merge, valid_length=lengths)[0]
    kept = x if lengths is None else mx.nd.SequenceMask(x, lengths, use_sequence_length=True, axis=1)
    wanted = inner.unroll(3, x, merge_outputs=True, valid_length=lengths)[0] + kept
    assert isinstance(found, list) == (merge is False)
    np.testing.assert_allclose((mx.nd.stack(*found, axis=1) if merge is False else found).asnumpy(), wanted.asnumpy(), rtol=1e-5)


def test_a_dropout_cell_drops_along_the_axes_of_the_sequence():
    cell = rnn.DropoutCell(0.5, axes=(1,))
    with mx.autograd.record():
        dropped = cell.unroll(50, mx.nd.ones((2, 50, 30)))[0].asnumpy()
    assert (dropped == dropped[:, :1]).all() and set(np.unique(dropped)) == {0, 2}


def test_modifiers_of_modifiers():
    """In a sequence, which asks its cells for their states with func=; and where only the outermost is asked."""
    def cells(prefix):
        inner = mx.rnn.ZoneoutCell(mx.rnn.LSTMCell(4, prefix=prefix), 0.1, 0.1)
        return mx.rnn.ResidualCell(inner), mx.rnn.ZoneoutCell(mx.rnn.ResidualCell(mx.rnn.GRUCell(4, prefix=f"{prefix}gru_")), 0.2)
    x = mx.sym.var("x")
    for cell in cells("a_"):
        around = mx.rnn.SequentialRNNCell()
        around.add(cell)
        out, states = around.unroll(3, x, merge_outputs=True, layout="NTC")
        assert out.infer_shape(x=(2, 3, 4))[1] == [(2, 3, 4)] and len(states) == len(around.state_info)
    for cell in cells("b_"):
        assert cell.unroll(3, x, merge_outputs=True)[0].infer_shape(x=(2, 3, 4))[1] == [(2, 3, 4)]
        begin = cell.begin_state(init_sym=mx.sym.Variable)
        assert all(state.get_children() is None for state in begin)
    around = mx.rnn.SequentialRNNCell()
    around.add(cells("c_")[0])
    begin = around.begin_state(func=mx.sym.Variable)
    assert [name for state in begin for name in state.list_arguments()] == ["c_begin_state_0", "c_begin_state_1"]
    modified = mx.rnn.ResidualCell(around)
    assert modified.unroll(2, x, merge_outputs=True)[0].infer_shape(x=(2, 2, 4))[1] == [(2, 2, 4)]


def test_activations_that_are_blocks_or_functions():
    x = mx.nd.array([[-1.0, 2.0]])
    for cls, states in ((mx.gluon.rnn.RNNCell, 1), (mx.gluon.rnn.LSTMCell, 2)):
        seen = []
        for activation in ("relu", lambda v: v.relu(), mx.gluon.nn.Activation("relu")):
            cell = cls(2, activation=activation, input_size=2)
            cell.initialize(mx.init.One())
            for _ in range(2):
                seen.append([value.asnumpy().tolist() for value in cell(x, [mx.nd.ones((1, 2))] * states)[1]])
                cell.hybridize()
        assert all(values == seen[0] for values in seen)
