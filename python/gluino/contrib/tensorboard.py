"""Metrics for TensorBoard, where a writer of its files is installed."""

__all__ = ["LogMetricsCallback"]


class LogMetricsCallback:
    """A callback of fit() that writes metrics with mxboard's SummaryWriter."""

    def __init__(self, logging_dir, prefix=None):
        self.prefix, self.step = prefix, 0
        try:
            from mxboard import SummaryWriter
        except ImportError:
            raise ImportError("LogMetricsCallback needs mxboard: pip install mxboard") from None
        self.summary_writer = SummaryWriter(logging_dir)

    def __call__(self, param):
        self.step += 1
        for name, value in param.eval_metric.get_name_value() if param.eval_metric is not None else ():
            self.summary_writer.add_scalar(name if self.prefix is None else f"{self.prefix}-{name}", value, self.step)
