"""What a gradient needs, changed before it is asked for."""
import pytest
from promise import Forward, both

import gluino as mx
from gluino import autograd, nd


@pytest.mark.parametrize("kept", ["saved", "attribute", "result", "nothing", "passed on"])
@pytest.mark.parametrize("change", ["memory", "recorded", "none"])
def test_what_a_function_keeps_for_its_gradient_is_what_it_was(kept, change):
    """Eager code may have lost it, which is an error; a program may have it still. Nobody uses another."""
    class Cube(autograd.Function):
        def forward(self, x):
            if kept == "saved":
                self.save_for_backward(x)
            elif kept == "attribute":
                self.what = [x]
            if kept == "passed on":
                return x
            self.result = x * x * x
            return self.result if kept == "result" else x * x * x

        def backward(self, dy):
            if kept == "saved":
                return dy * self.saved_tensors[0] * 3
            if kept == "attribute":
                return dy * self.what[0] * 3
            return dy * self.result if kept == "result" else dy * 2

    def forward(self, x):
        y = x * 1
        z = Cube()(y)
        changed = z if kept == "result" else y
        if change == "memory":
            with autograd.pause():
                changed[0:2] *= 0.5
        elif change == "recorded":
            changed *= 0.5
        return z * 1

    seen = []
    for flags in (None, {}, {}, {"verify": True}):
        net = Forward(forward)
        if flags is not None:
            net.hybridize(**flags)
        for _ in range(3):
            x = nd.array([1.0, 2, 3])
            x.attach_grad()
            with autograd.record():
                y = net(x)
            try:
                y.backward()
                seen.append((y.asnumpy().tolist(), x.grad.asnumpy().tolist()))
            except mx.MXNetError as error:
                assert "a user's Function keeps was changed in place" in str(error)
                seen.append((y.asnumpy().tolist(), None))
    values = {str(s[0]) for s in seen}
    gradients = {str(s[1]) for s in seen if s[1] is not None}
    assert len(values) == 1 and len(gradients) <= 1
    lost = change == "memory" and kept in ("saved", "attribute")
    assert all((s[1] is None) == lost for s in seen[:3])


@pytest.mark.parametrize("loop", ["foreach", "while_loop", "cond"])
@pytest.mark.parametrize("reads", ["before", "after", "never"])
def test_what_a_loop_was_given_may_change_after_it(loop, reads):
    """Its steps have kept what their gradients need."""
    def forward(self, x):
        if loop == "foreach":
            y = nd.contrib.foreach(lambda row, s: (row + self.state, s * 0.5 + row), x, x[0] * 1)[0]
        elif loop == "while_loop":
            y = nd.contrib.while_loop(lambda i, s: i < 2, lambda i, s: (s + self.state, (i + 1, s * 2)), (x.sum() * 0, x * 1), max_iterations=2)[0][0]
        else:
            y = nd.contrib.cond(x.sum() > 2, lambda: x + self.state, lambda: x * 2)
        if reads == "before" and x.sum() > 100:
            return x
        self.state += 0.125
        x[0] = 3
        if reads == "after" and x.sum() > 100:
            return x
        return y * self.state

    def drive(net):
        seen = []
        for rows in (3, 2, 3, 3, 4, 5, 6, 3):
            source = nd.ones((rows, 4))
            source.attach_grad()
            with autograd.record():
                y = net(source * 1)
            y.backward()
            seen += [y, source.grad, net.state * 1]
        return seen
    both(lambda: Forward(forward, state=nd.ones((4,))), drive)
