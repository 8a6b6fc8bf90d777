"""Times of operators and of scopes that the user names, written as a Chrome trace (chrome://tracing)."""
import json
import threading
import time

from . import _core

__all__ = ["set_config", "set_state", "dump", "dumps", "pause", "resume", "Scope", "Task", "Frame", "Event", "Counter", "Marker", "Domain", "scope"]

_config = {"filename": "profile.json"}
_events, _lock = [], threading.Lock()
_state = {"running": False}
_start = time.perf_counter()


def set_config(**kwargs):
    """filename is where dump() writes; MXNet's other options are accepted."""
    _config.update(kwargs)


def set_state(state="stop", profile_process="worker"):
    """'run' or 'stop'."""
    if state not in ("run", "stop"):
        raise ValueError(f"state is 'run' or 'stop', not {state!r}")
    _state["running"] = state == "run"
    _core.set_profiling(_state["running"])


profiler_set_config, profiler_set_state = set_config, set_state


def pause(profile_process="worker"):
    """Stops taking notes."""
    set_state("stop")


def resume(profile_process="worker"):
    """Goes on."""
    set_state("run")


def set_kvstore_handle(handle):
    """Raises: there are no servers to profile."""
    raise NotImplementedError("set_kvstore_handle: there are no servers to profile")


def _note(name, category, begin, end, phase="X", **more):
    if _state["running"]:
        event = {"name": name, "cat": category, "ph": phase, "ts": (begin - _start) * 1e6, "pid": 0, "tid": threading.get_ident(), **more}
        if phase == "X":
            event["dur"] = (end - begin) * 1e6
        with _lock:
            _events.append(event)


def _collect():
    """Takes over the operators that the extension has timed; both clocks count from the same moment."""
    for name, begin, end in _core.take_profile():
        _events.append({"name": name, "cat": "operator", "ph": "X", "ts": begin / 1e3 - _start * 1e6, "dur": (end - begin) / 1e3, "pid": 0, "tid": 0})


_SORTED_BY = {"total": sum, "avg": lambda t: sum(t) / len(t), "min": min, "max": max, "count": len}


def dumps(reset=False, format="table", sort_by="total", ascending=False):
    """A table of names, counts and times for each category, or the same as JSON, both as MXNet has them."""
    with _lock:
        _collect()
        events = list(_events)
        if reset:
            _events.clear()
    if sort_by not in _SORTED_BY:
        raise AssertionError(f"Invalid value provided for sort_by: {sort_by}. Support: {', '.join(_SORTED_BY)}")
    if format not in ("table", "json"):
        raise AssertionError(f"Invalid value provided for format: {format}. Support: 'table', 'json'")
    groups = {}  # categories, names, milliseconds
    for event in events:
        groups.setdefault(event["cat"], {}).setdefault(event["name"], []).append(event.get("dur", 0.0) / 1000)
    tables = {group: {name: {"Count": len(t), "Total": sum(t), "Min": min(t), "Max": max(t), "Avg": sum(t) / len(t)} for name, t in sorted(
        times.items(), key=lambda item: _SORTED_BY[sort_by](item[1]), reverse=not ascending)} for group, times in groups.items()}
    if format == "json":
        return json.dumps({"Time": tables, "Memory": {}, "Unit": {"Time": "ms", "Memory": "kB"}})
    lines = ["", "Profile Statistics:", "\tNote the difference in units for different entries."]
    for group, rows in tables.items():
        titles = ("Total Count", "Time (ms)", "Min Time (ms)", "Max Time (ms)", "Avg Time (ms)")
        lines += [group, "=" * 17, f"{'Name':<25}" + "".join(f"{title:>16}" for title in titles),
                  f"{'----':<25}" + "".join(f"{'-' * len(title):>16}" for title in titles)]
        lines += [f"{name:<25}{row['Count']:>16}{row['Total']:>16.4f}{row['Min']:>16.4f}{row['Max']:>16.4f}{row['Avg']:>16.4f}" for name, row in rows.items()]
        lines.append("")
    return "\n".join(lines)


def dump(finished=True, profile_process="worker"):
    """Writes the trace file."""
    with _lock:
        _collect()
        _core.write_files([(str(_config["filename"]), json.dumps({"traceEvents": _events, "displayTimeUnit": "ms"}).encode())])
        if finished:
            _state["running"] = False


dump_profile = dump


class Domain:
    """A group of names."""

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name

    def new_task(self, name):
        return Task(self, name)

    def new_frame(self, name):
        return Frame(self, name)

    def new_counter(self, name, value=None):
        return Counter(self, name, value)

    def new_marker(self, name):
        return Marker(self, name)


class _Span:
    """Something with a start and a stop."""

    def __init__(self, domain, name=None):
        self.domain, self.name = (Domain("user"), domain) if name is None else (domain, name)

    def start(self):
        self._begin = time.perf_counter()

    def stop(self):
        _note(self.name, str(self.domain), self._begin, time.perf_counter())

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self.stop()


class Task(_Span):
    """A task."""


class Frame(_Span):
    """A frame."""


class Event(_Span):
    """An event."""

    def __init__(self, name):
        super().__init__(Domain("event"), name)


class Scope(_Span):
    """A `with` scope."""


scope = Scope


class Counter:
    """A number over time."""

    def __init__(self, domain, name, value=None):
        self.domain, self.name, self._value = domain, name, 0
        if value is not None:
            self.set_value(value)

    def set_value(self, value):
        self._value = value
        now = time.perf_counter()
        _note(self.name, str(self.domain), now, now, "C", args={self.name: value})

    def increment(self, delta=1):
        self.set_value(self._value + delta)

    def decrement(self, delta=1):
        self.set_value(self._value - delta)

    def __iadd__(self, delta):
        self.increment(delta)
        return self

    def __isub__(self, delta):
        self.decrement(delta)
        return self


class Marker:
    """A moment."""

    def __init__(self, domain, name):
        self.domain, self.name = domain, name

    def mark(self, scope="process"):
        now = time.perf_counter()
        _note(self.name, str(self.domain), now, now, "i", s=scope[0])
