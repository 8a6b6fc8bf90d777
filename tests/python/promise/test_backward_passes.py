"""hybridize() never changes an answer: several backward passes over one recording, in parts, and what they write and leave alone."""
import numpy as np
import pytest
from promise import Forward, both

import gluino as mx
from gluino import autograd, gluon, nd


def leaf(values=(1.0, 2.0, 3.0)):
    x = nd.array(np.array(values, dtype="float32"))
    x.attach_grad()
    return x


def outcome(function):
    """What it gives, or the kind of its error."""
    try:
        return function()
    except mx.MXNetError as error:
        text = str(error)
        return next((known for known in ("already been released", "changed in place", "was neither recorded", "was not computed inside") if known in text), text)


def is_on_tape(x):
    with autograd.record():
        return mx._core.is_recorded(x * 1)


def twice(drive):
    """The first call is traced, the second runs the program."""
    return lambda net: [drive(net) for _ in range(2)]


# ---- gradients

@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool"])
def test_whole_numbers_pass_gradients_back(dtype):
    def drive(net):
        x = leaf()
        with autograd.record():
            y = net(x)
        y.backward()
        return x.grad
    assert both(lambda: Forward(lambda self, x: x.astype(dtype)), twice(drive))[1][0][2] == [1.0, 1.0, 1.0]


def test_whole_numbers_beside_fractions_pass_gradients_back():
    def drive(net):
        x = leaf()
        with autograd.record():
            y, n = net(x)
        n.backward(nd.array([1, 2, 3], dtype="int32"), retain_graph=True)
        first = x.grad.copy()
        autograd.backward([y, n])
        return first, x.grad
    both(lambda: Forward(lambda self, x: (x * x, (x * 2).astype("int32"))), twice(drive))


def test_one_result_of_a_call_is_differentiated_by_another():
    def drive(net):
        x = leaf()
        with autograd.record():
            y, z, total = net(x)
        found = [autograd.grad([total], [y], retain_graph=True)[0], autograd.grad([total, y], [y, x, z], retain_graph=True)]
        with autograd.record():
            first = autograd.grad([z], [y], create_graph=True)[0]
        first.backward()
        return found, first, x.grad

    def forward(self, x):
        y = x * x
        z = y * y * 0.5
        return y, z, (z + y * x).sum()
    both(lambda: Forward(forward), twice(drive))


def test_zeros_flow_back_only_to_what_a_result_was_computed_from():
    def drive(net):
        x, y = leaf(), leaf()
        with autograd.record():
            a, b = net(x, y)
            end = nd.BlockGrad(a) + 1
        x.grad[:] = 7
        y.grad[:] = 8
        end.backward()
        return x.grad, y.grad
    both(lambda: Forward(lambda self, x, y: (x * 2, y * 3)), twice(drive))


# ---- what a pass releases

def test_what_shares_calls_with_what_was_released_is_an_error():
    def drive(net):
        x, w = leaf(), leaf()
        with autograd.record():
            y, z, apart, part = net(x)
        y.backward()
        with autograd.record():
            later = z * w
        seen = [is_on_tape(v) for v in (y, z, apart, part)]
        return seen, outcome(later.backward), w.grad, outcome(apart.backward), x.grad

    def forward(self, x):
        y = x * x
        return y, y * 2 + x, x * 3, y[0:2]
    both(lambda: Forward(forward), twice(drive))


def test_what_lies_behind_a_blocked_gradient_is_not_released():
    def drive(net):
        x = leaf()
        with autograd.record():
            y, z = net(x)
        y.backward()
        return outcome(z.backward), x.grad

    def forward(self, x):
        hidden = x * x
        return nd.BlockGrad(hidden) * x, hidden * 2
    both(lambda: Forward(forward), twice(drive))


# ---- arguments with gradients

def test_an_argument_with_a_gradient_is_not_changed_where_that_is_recorded():
    def drive(net):
        seen = []
        for is_leaf in (False, True, False):
            x = leaf() if is_leaf else nd.array([1.0, 2.0, 3.0])
            with autograd.record():
                seen.append(str(outcome(lambda: net(x))).split(";")[0].split("[")[0])
            seen.append(x)
        return seen

    def forward(self, x):
        x += 1
        return x * 2
    both(lambda: Forward(forward), drive)


def test_a_branch_that_changes_an_argument_with_a_gradient():
    def drive(net):
        seen = []
        for is_leaf in (False, False, True):
            x = leaf() if is_leaf else nd.array([1.0, 2.0, 3.0])
            with autograd.record():
                seen.append(isinstance(outcome(lambda: net(x)), str))
            seen.append(x)
        return seen

    def forward(self, x):
        if x.sum() > 0:
            x += 1
        return x * 2
    both(lambda: Forward(forward), drive)


def test_backward_inside_writes_the_gradients_of_this_call():
    def drive(net):
        seen = []
        for kind in ("leaf", "leaf", "plain", "leaf", "computed"):
            x = nd.array([1.0, 2.0, 3.0])
            if kind != "plain":
                x.attach_grad()
            with autograd.record():
                y = x * 3 if kind == "computed" else x
            seen.append([outcome(lambda: net(y)), None if kind == "plain" else x.grad])
        return seen

    def forward(self, x):
        with autograd.record():
            z = (x * x).sum()
        z.backward()
        return x * 2
    both(lambda: Forward(forward), drive)


def test_grad_inside_asks_where_its_argument_is_on_the_tape():
    def drive(net):
        seen = []
        for kind in ("leaf", "leaf", "plain", "leaf", "computed", "leaf"):
            x = nd.array([1.0, 2.0, 3.0])
            if kind != "plain":
                x.attach_grad()
            with autograd.record():
                y = x * 3 if kind == "computed" else x
            seen.append([outcome(lambda: net(y)), is_on_tape(y)])
        return seen

    def forward(self, x):
        with autograd.record():
            z = x * x
        return autograd.grad([z], [x])[0] * 1
    both(lambda: Forward(forward), drive)


def test_a_weight_that_gets_another_gradient_is_written_by_backward_inside():
    def make():
        def forward(self, x):
            with autograd.record():
                z = (x * self.weight).sum()
            z.backward()
            return x * 2
        return Forward(forward, weight=leaf())

    def drive(net):
        seen = []
        for req in ("write", "write", "add", "add", "write"):
            if seen and req != "write" or len(seen) == 4:
                net.weight.attach_grad(req)
            net(nd.array([4.0, 5.0, 6.0]))
            seen.append(net.weight.grad.copy())
        return seen
    both(make, drive)


def test_what_other_values_need_is_not_released_inside():
    def drive(net):
        x = leaf()
        with autograd.record():
            y = net(x)
        return outcome(y.backward), x.grad

    def forward(self, x):
        a = x * 2
        b = a * x
        with autograd.record():
            z = (a * a).sum()
        autograd.grad([z], [a])
        return b
    both(lambda: Forward(forward), twice(drive))


def test_a_result_that_is_argument_and_known_from_outside():
    def drive(net):
        x = leaf()
        net.outer.grad[:] = 9
        with autograd.record():
            first, _ = net(x)
            second, other = net(first)
        other.backward(retain_graph=True)
        seen = [net.outer.grad.copy()]
        second.backward()
        return seen, net.outer.grad, second is net.outer

    def make():
        return Forward(lambda self, x: (self.outer, x * 1), outer=leaf((4, 5, 6)))
    both(make, twice(drive))


class Pulled(autograd.Function):
    """Its gradient is not zero where nothing flows in."""

    def forward(self, x):
        return x * 1

    def backward(self, dy):
        return dy + 0.5


def test_zeros_flow_back_through_the_indices_of_rows():
    def make():
        net = Forward(lambda self, x: self.table(Pulled()(x)), table=gluon.nn.Embedding(5, 2, sparse_grad=True))
        net.initialize()
        return net

    def drive(net):
        x = leaf()
        with autograd.record():
            y = net(x)
        y.backward()
        return x.grad, net.table.weight.grad().tostype("default")
    assert both(make, twice(drive))[1][0][1][0][2] == [0.5, 0.5, 0.5]


def test_two_calls_with_gradients_of_their_own_give_two():
    def drive(net):
        x = nd.array([[1.0, 2.0, 3.0]])
        x.attach_grad()
        with autograd.record():
            y, z = net(x)
        autograd.backward([y, z])
        return x.grad

    def forward(self, x):
        return nd.SoftmaxOutput(x, nd.ones((1,))), nd.SoftmaxOutput(x, nd.ones((1,))) * 2
    both(lambda: Forward(forward), twice(drive))


def test_a_branch_that_is_not_taken_asks_for_no_gradient_of_its_own():
    def drive(net):
        seen = []
        for values in ((1, 2, 3), (-1, -2, -3), (4, 5, 6)):
            x = leaf(values)
            with autograd.record():
                y = net(x)
            y.backward()
            seen.append(x.grad)
        return seen

    def forward(self, x):
        pulled = Pulled()(x)
        return nd.contrib.cond(x.sum() > 0, lambda: x * 2, lambda: pulled * 3)
    both(lambda: Forward(forward), twice(drive))


def test_a_head_gradient_takes_the_dtype_of_its_head():
    def drive(net):
        x = leaf()
        with autograd.record():
            y = net(x)
        autograd.backward([y, x], [nd.array([1, 2, 3], dtype="float64"), nd.array([4, 5, 6], dtype="float64")])
        return x.grad
    assert both(lambda: Forward(lambda self, x: x * 2), twice(drive))[1][0][2] == [6.0, 9.0, 12.0]


def test_gradients_that_are_constants_send_no_zeros_back():
    def drive(net):
        x, w = leaf(), leaf()
        with autograd.record():
            y = net(x, w)
            z = net(y, w)
            found = autograd.grad([z], [w], create_graph=True)[0]
            end = (found * found).sum()
        x.grad[:] = 7
        w.grad[:] = 8
        end.backward()
        return found, x.grad, w.grad
    both(lambda: Forward(lambda self, x, w: x + w), twice(drive))
