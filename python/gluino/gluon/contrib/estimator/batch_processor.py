"""What the estimator does with one batch."""
from .... import autograd
from ...utils import split_and_load

__all__ = ["BatchProcessor"]


class BatchProcessor:
    """What happens to one batch; derive from it for other inputs, outputs or losses."""

    def _get_data_and_label(self, batch, ctx, batch_axis=0):
        return split_and_load(batch[0], ctx, batch_axis), split_and_load(batch[1], ctx, batch_axis)

    def evaluate_batch(self, estimator, val_batch, batch_axis=0):
        """(data, labels, predictions, losses), one of each per context."""
        data, label = self._get_data_and_label(val_batch, estimator.context, batch_axis)
        pred = [estimator.val_net(x) for x in data]
        return data, label, pred, [estimator.val_loss(p, y) for p, y in zip(pred, label)]

    def fit_batch(self, estimator, train_batch, batch_axis=0):
        """The same with gradients."""
        data, label = self._get_data_and_label(train_batch, estimator.context, batch_axis)
        with autograd.record():
            pred = [estimator.net(x) for x in data]
            loss = [estimator.loss(p, y) for p, y in zip(pred, label)]
        autograd.backward(loss)
        return data, label, pred, loss
