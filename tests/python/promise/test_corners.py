"""Corners of the promise that are not met every day: effects in the bodies of loops, functions put into objects, copies and NumPy inside."""
import copy
import pickle

import numpy as np
import pytest
from promise import Forward, plain
from promise_programs import calls, expect_same, rows

import gluino as mx
from gluino import autograd, gluon, nd
from gluino.gluon import nn

PROGRAMS = {}


def program(make):
    PROGRAMS[make.__name__] = make
    return make


@program
def a_body_of_foreach_appends():
    def f(x):
        seen = []

        def body(row, state):
            seen.append(1)
            return row * len(seen), state
        return nd.contrib.foreach(body, x, nd.zeros((1,)))
    return f, calls


@program
def a_body_of_foreach_counts():
    def forward(self, x):
        def body(row, state):
            self.count += 1
            return row * self.count, state
        return nd.contrib.foreach(body, x, nd.zeros((1,)))[0]
    net = Forward(forward, count=0)
    return net, lambda f: (calls(f), f.count)


@program
def a_branch_that_is_not_taken_counts():
    def f(x):
        taken = []

        def branch(k):
            return lambda: (taken.append(k), x * sum(taken))[1]
        return nd.contrib.cond(x.sum() > 1, branch(2), branch(3))
    return f, calls


@program
def a_variable_of_a_body_is_written():
    def f(x):
        steps = 0

        def body(row, state):
            nonlocal steps
            steps += 1
            return row * steps, state
        return nd.contrib.foreach(body, x, nd.zeros((1,)))[0] + steps
    return f, calls


@program
def one_block_twice_and_once():
    def drive(net):
        seen = calls(net)
        net._children["1"] = net[0]
        seen += calls(net)
        del net._children["0"]
        return seen + calls(net)
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=3), nn.Dense(3, in_units=3))
    return net, drive


@program
def facts_of_parameters():
    def drive(net):
        seen = calls(net)
        net.layer.weight.lr_mult = 5
        seen += calls(net)
        net.layer.weight.grad_req = "null"
        return seen + calls(net)
    net = Forward(lambda self, x: self.layer(x) * self.layer.weight.lr_mult * (2 if self.layer.weight.grad_req == "write" else 3))
    net.layer = nn.Dense(2, in_units=3)
    return net, drive


@program
def a_forward_of_the_object():
    def drive(net):
        seen, old = calls(net), net.forward
        net.forward = lambda x: x * 5
        seen += calls(net)
        net.forward = lambda x: old(x) + 1
        seen += calls(net)
        net[0].forward = lambda x: x * 3
        seen += calls(net)
        del net.forward
        seen += calls(net)
        del net[0].forward
        return seen + calls(net)
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=3), nn.Activation("tanh"))
    return net, drive


def recorded(*arguments):
    """Calls that are recorded, what they give and the gradients of their arguments; errors by their kind."""
    def drive(f):
        seen = []
        for x in arguments * 2:
            x = x.copy()
            x.attach_grad()
            try:
                with autograd.record():
                    y = f(x)
                    total = (y * y).sum()
                seen.append(plain(y))
                total.backward()
            except Exception as error:
                seen.append(type(error).__name__)
            seen.append(plain(x.grad))
        return seen
    return drive


@program
def a_value_inside_is_given_a_gradient():
    def f(x):
        middle = x * 2
        middle.attach_grad()
        return middle * middle
    return f, recorded(rows(), rows(1))


@program
def an_argument_is_given_a_gradient_inside():
    def f(x):
        x.attach_grad()
        return x * 3

    def drive(f):
        seen = []
        for k in range(3):
            x = rows(k)
            with autograd.record():
                y = f(x)
            y.backward()
            seen.append(plain(x.grad))
        return seen
    return f, drive


@program
def a_gradient_that_is_read_is_another():
    w = nd.ones((3,))
    w.attach_grad()

    def drive(f):
        seen = []
        for k in range(5):
            with autograd.record():
                y = f(rows(k))
            y.backward()
            seen.append((plain(y), plain(w.grad)))
            if k == 2:
                w.attach_grad()
        return seen
    return lambda x: x * w + w.grad, drive


@program
def a_mode_is_left_behind():
    def f(x):
        autograd.set_training(True)
        return nd.Dropout(x, p=0.5)

    def drive(f):
        seen = []
        for _ in range(3):
            seen.append((plain(f(rows())), autograd.is_training()))
            autograd.set_training(False)
        return seen
    return f, drive


@program
def a_mode_is_left_behind_where_nothing_can_be_compiled():
    class Counts(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            y = nd.Dropout(x, p=0.5)
            autograd.set_training(False)
            return y

    def drive(f):
        seen = []
        for _ in range(6):
            with autograd.record():
                seen.append(plain(f(rows())))
        return seen
    return Counts(), drive


@program
def an_error_of_shapes_is_caught():
    def f(x):
        try:
            return nd.dot(x, x)
        except mx.MXNetError:
            return x * 2
    return f, recorded(rows(), nd.ones((3, 3)), rows(1))


@program
def a_gradient_of_its_own_has_another_shape():
    class Summed(autograd.Function):
        def forward(self, x):
            return x * 2

        def backward(self, head):
            return head.sum()
    return lambda x: Summed()(x) + x, recorded(rows(), rows(1))


@program
def a_gradient_of_its_own_fails_or_reads():
    class Chosen(autograd.Function):
        def forward(self, x):
            return x * 2

        def backward(self, head):
            if head.sum().asscalar() > 3:
                raise KeyError("too large")
            return head * float(head.max().asscalar())
    return lambda x: Chosen()(x) + x, recorded(rows(), rows(9))


@program
def branches_of_other_shapes():
    return lambda x: nd.contrib.cond(x.sum() > 1, lambda: x, lambda: x.sum().reshape((1,))), recorded(rows(), rows(3), -rows())


@program
def branches_that_update_arrays():
    state = nd.zeros((3,))

    def f(x):
        def more():
            state[:] = state + 1
            return x * 2

        def less():
            state[:] = state - 1
            return x * 3
        return nd.contrib.cond(x.sum() > 1, more, less) + state
    return f, lambda f: (calls(f), plain(state))


@program
def an_array_of_no_rows_is_made():
    return lambda x: nd.concat(x, nd.zeros((0, 3)), dim=0), calls


@pytest.mark.parametrize("inside", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), lambda x: nd.array(np.array(x)),
                                    lambda x: nd.array(np.asarray(x, dtype="float64").sum(axis=0))], ids=["copy", "deepcopy", "pickle", "array", "asarray"])
@pytest.mark.parametrize("recorded", [False, True])
def test_arrays_are_copied_inside(inside, recorded):
    def drive(f):
        seen = []
        for k in range(3):
            x = rows(k)
            x.attach_grad()
            with autograd.record() if recorded else autograd.pause():
                y = f(x)
            if recorded:
                y.backward()
            seen.append((plain(y), plain(x.grad)))
        return seen
    expect_same(lambda: (lambda x: inside(x * 2) * x, drive))


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_modes_do_the_same(name):
    expect_same(PROGRAMS[name])


@pytest.mark.parametrize("hybridized", [False, True])
def test_a_missing_argument_is_named(hybridized):
    net = nn.Dense(2, in_units=3)
    net.initialize()
    net.hybridize(hybridized)
    net(rows())
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        net()


def test_a_condition_that_is_no_array_is_named():
    with pytest.raises(TypeError, match="cond: pred is an array of one element, but bool was given"):
        mx.nd.contrib.cond(True, lambda: rows(), lambda: rows())


def test_a_symbol_has_no_values():
    with pytest.raises(TypeError, match="a symbol has no values before its graph runs"):
        np.array(mx.sym.var("x"))
    assert copy.deepcopy(mx.sym.var("x") + 1).list_arguments() == ["x"]
    assert isinstance(gluon.nn.Dense(2)(mx.sym.var("x")), mx.sym.Symbol)
