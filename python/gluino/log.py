"""Loggers with one letter for the level, the time and the place, coloured on a terminal."""
import logging
import sys
import warnings

__all__ = ["get_logger", "getLogger", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "NOTSET"]

DEBUG, INFO, WARNING, ERROR, CRITICAL, NOTSET = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL, logging.NOTSET
_COLOURS = {logging.WARNING: "\x1b[0;33m", logging.ERROR: "\x1b[0;31m", logging.CRITICAL: "\x1b[0;35m"}


class _Formatter(logging.Formatter):
    def __init__(self, colored):
        super().__init__(datefmt="%m%d %H:%M:%S")
        self.colored = colored

    def format(self, record):
        head = "[%(levelname).1s %(asctime)s %(process)d %(pathname)s:%(funcName)s:%(lineno)d]"
        if self.colored:
            head = f"{_COLOURS.get(record.levelno, chr(27) + '[0;32m')}{head}\x1b[0m"
        self._style._fmt = head + " %(message)s"
        return super().format(record)


def get_logger(name=None, filename=None, filemode=None, level=WARNING):
    """A logger that writes to a file or the terminal; the root logger where no name is given."""
    logger = logging.getLogger(name)
    if name is not None and not getattr(logger, "_init_done", None):
        logger._init_done = True
        handler = logging.FileHandler(filename, filemode or "a") if filename else logging.StreamHandler()
        handler.setFormatter(_Formatter(not filename and getattr(sys.stderr, "isatty", lambda: False)()))
        logger.addHandler(handler)
        logger.setLevel(level)
    return logger


def getLogger(name=None, filename=None, filemode=None, level=WARNING):
    """get_logger by its old name."""
    warnings.warn("getLogger is deprecated, Use get_logger instead", DeprecationWarning, stacklevel=2)
    return get_logger(name, filename, filemode, level)
