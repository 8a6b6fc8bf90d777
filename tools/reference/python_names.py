"""Pages of the Python package: what each module offers, from its signatures and docstrings."""
import html
import importlib
import inspect
import re

import markdown

MODULES = ("autograd", "ndarray", "symbol", "numpy", "numpy_extension", "random", "gluon", "gluon.nn", "gluon.rnn", "gluon.loss", "gluon.data",
           "gluon.data.vision", "gluon.data.vision.transforms", "gluon.utils", "gluon.model_zoo.vision", "gluon.contrib.nn", "gluon.contrib.rnn",
           "gluon.contrib.estimator", "initializer", "optimizer", "lr_scheduler", "metric", "callback", "context", "distributed", "image", "io", "kvstore",
           "module", "monitor", "onnx", "profiler", "recordio", "runtime", "test_utils", "util", "visualization")


def _signature(thing):
    try:
        return str(inspect.signature(thing)).replace("(self, ", "(").replace("(self)", "()")
    except (TypeError, ValueError):
        return "(...)"


def _public(module):
    """[(name, thing)] of the package's own classes and functions that a module offers."""
    names = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
    things = [(n, getattr(module, n, None)) for n in sorted(set(names))]
    return [(n, t) for n, t in things if (inspect.isclass(t) or callable(t)) and getattr(t, "__module__", "").startswith(("gluino", "mxnet"))]


def _about(thing):
    """The docstring, without the signature that begins those of operators."""
    doc = inspect.cleandoc(thing.__doc__ or "") if isinstance(getattr(thing, "__doc__", None), str) else ""
    return re.sub(r"^\w+\(.*\)(?: -> .*)?\n+", "", doc)


def _paragraphs(doc):
    parts = []
    for part in doc.split("\n\n"):
        shown = html.escape(part, quote=False)
        parts.append(f"<pre>{shown}</pre>" if ">>>" in part else f"<p>{markdown.inline(part)}</p>")
    return "".join(parts)


def signatures(modules):
    """{class: "Class(arguments)"} of these modules."""
    return {n: n + _signature(t) for m in modules for n, t in _public(importlib.import_module(f"gluino.{m}")) if inspect.isclass(t)}


def _members(cls):
    """The methods and properties that a class defines itself."""
    for name, member in sorted(cls.__dict__.items()):
        if not name.startswith("_"):
            yield name, member.__func__ if isinstance(member, (staticmethod, classmethod)) else member


def _entry(site, anchor, module, page, name, thing):
    full = f"{module}.{name}"
    doc = _about(thing)
    site.enter(full, "Python class" if inspect.isclass(thing) else "Python function", f"{page}#{anchor(full)}", doc)
    text = f'<dt id="{anchor(full)}">{"class " if inspect.isclass(thing) else ""}{html.escape(full + _signature(thing))}</dt>'
    bases = [b for b in thing.__bases__ if b.__module__.startswith(("gluino", "mxnet"))] if inspect.isclass(thing) else []
    inherited = f'<p class="base">and what {" and ".join(b.__name__ for b in bases)} has</p>' if bases else ""
    members = ""
    for member, value in _members(thing) if inspect.isclass(thing) else ():
        shown = member if isinstance(value, property) or not callable(value) else member + _signature(value)
        about = _about(value) if callable(value) or isinstance(value, property) else ""
        if about:
            site.enter(f"{full}.{member}", "Python member", f"{page}#{anchor(full)}", about)
        members += f"<dt>{html.escape(shown)}</dt>" + (f"<dd>{markdown.inline(about.split(chr(10) * 2)[0])}</dd>" if about else "")
    return text + f"<dd>{_paragraphs(doc) if doc else ''}{f'<dl>{members}</dl>' if members else ''}{inherited}</dd>"


def add_modules(site, anchor):
    """A page for each module, and one that lists them."""
    from mxnet import _core
    operators = {spelling for spelling, _ in _core.operator_names()}
    listed, pages = [], []
    for module_name in MODULES:
        module = importlib.import_module(f"gluino.{module_name}")
        page, shown = f"python_{module_name.replace('.', '_')}.html", f"mx.{module_name}"
        things = _public(module)
        own = [(n, t) for n, t in things if inspect.isclass(t) or n not in operators or _about(t) and inspect.isfunction(t)]
        rest = sorted({n for n, _ in things} - {n for n, _ in own})
        doc = _about(module)
        body = f"<h1>{shown}</h1>{_paragraphs(doc) if doc else ''}<dl>" + "".join(_entry(site, anchor, shown, page, n, t) for n, t in own) + "</dl>"
        if rest:
            body += f'<h2>Operators</h2><p>As functions; <a href="operators.html">their pages</a> say what they do.</p><p>{", ".join(map(html.escape, rest))}</p>'
        pages.append((page, shown, body))
        listed.append(f'<tr><td><a href="{page}">{shown}</a></td><td>{markdown.inline(doc.split(chr(10) * 2)[0])}</td></tr>')
    site.add("Python", "python_modules.html", "Modules",
             "<h1>Python</h1><p><code>import gluino as mx</code>, or <code>import mxnet as mx</code>.</p><table>" + "".join(listed) + "</table>")
    for page, shown, body in pages:
        site.add("Python", page, shown, body)
