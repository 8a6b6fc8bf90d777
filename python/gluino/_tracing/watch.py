"""What code that is to be traced reads besides its arguments, and what it writes: found by looking through the code."""
import builtins
import collections
import contextvars
import dis
import functools
import importlib
import io
import os
import sys
import types

from .snapshot import PLAIN, content_of

__all__ = ["Collector"]

# Modules whose functions give something else at every call.
_UNREPEATABLE = {"random", "secrets", "time", "uuid", "datetime", "numpy.random", "numpy.random.mtrand"}
# Modules of Python's whose functions give the same for the same arguments, or do nothing but tell somebody something. What functions of
# the others give may depend on files, threads, processes or settings that nothing here sees.
_PURE = set("""math cmath operator _operator itertools functools _functools collections _collections types typing dataclasses enum abc _abc copy
copyreg re string numbers fractions statistics bisect _bisect heapq _heapq struct _struct textwrap builtins warnings _warnings logging contextlib
json json.encoder json.decoder inspect posixpath unicodedata html base64 binascii zlib hashlib _hashlib colorsys pprint reprlib traceback
importlib pickle _pickle""".split())
_STARTERS = {"Thread", "Timer", "ThreadPoolExecutor", "ProcessPoolExecutor", "Process", "Pool", "Popen"}  # classes of Python's: others then run the code
_SEEN = {"getenv"}  # functions of other modules that read what is watched
# Functions of NumPy and of this package that read and write files.
_FILES = {"load", "loads", "loadtxt", "genfromtxt", "fromfile", "memmap", "save", "savez", "savez_compressed", "savetxt"}
# Methods of paths, and of NumPy's arrays, that do.
_FILE_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes", "is_file", "is_dir", "exists", "iterdir", "unlink", "tofile"}
# Functions whose results, or effects, nothing in the code tells.
_UNSEEN = {"exec", "eval", "compile", "globals", "locals", "vars", "open", "input", "__import__", "id"}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"}
_STORED = {"STORE_ATTR", "DELETE_ATTR"}
_NAMESPACES = (types.SimpleNamespace, collections.UserDict, collections.UserList, collections.ChainMap)


class _Names:
    """Names in a piece of code and in the functions inside it."""

    def __init__(self, code):
        self.globals, self.attributes, self.stored, self.imported, self.taken = set(), set(), set(), set(), set()
        self.parts = set()  # (variable, attribute, ...) where one is taken from the other
        self.sees_all = self.asks_types = False
        self._read(code)

    def _read(self, code):
        chain, root = (), None  # attributes that are taken one from the other, behind a variable or an argument
        arguments = code.co_varnames[:code.co_argcount]
        for instruction in dis.get_instructions(code):
            name, operation = instruction.argval, instruction.opname
            if operation == "LOAD_FAST":
                root = name if name in arguments else None
            elif operation not in _ATTRIBUTES:
                root = None
            if name == "__dict__" and operation == "LOAD_ATTR" and root == "F":
                continue  # of the package's own modules, which a client looks into for operators
            if operation in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"):
                self.globals.add(name)
                self.sees_all |= name in ("getattr", "setattr", "vars", "hasattr")
                self.asks_types |= name == "type"
            elif operation in _ATTRIBUTES:
                self.attributes.add(name)
                self.sees_all |= name == "__dict__"
                if chain:
                    chain += (name,)
                    self.parts.add(chain)
            elif operation in _STORED:
                self.stored.add(name)
            elif operation == "IMPORT_NAME":
                self.imported.add(name)
            elif operation == "IMPORT_FROM":
                self.taken.add(name)
            if operation in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"):
                chain = (name,)
            elif operation not in _ATTRIBUTES:
                chain = ()
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._read(constant)


_names = functools.lru_cache(maxsize=4096)(_Names)


def _is_own(module):
    """Modules of this package and of others that users do not change."""
    top = (module or "").partition(".")[0]
    return top in ("gluino", "mxnet", "numpy", "builtins") or top in sys.stdlib_module_names


def _is_unforeseeable(value):
    """A function of Python's, NumPy's or this package's whose results do not follow from its arguments."""
    if not isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
        return False
    owner = getattr(value, "__self__", None)
    module = value.__module__ or getattr(owner, "__name__", "")
    top = module.partition(".")[0]
    if top in ("gluino", "mxnet", "numpy"):
        return value.__name__ in _FILES
    return isinstance(owner, (types.ModuleType, type(None))) and top in sys.stdlib_module_names and module not in _PURE and value.__name__ not in _SEEN


def _is_changeable(value):
    """What a module of Python's own holds and programs change: os.environ, for example."""
    return not callable(value) and not isinstance(value, (int, float, complex, str, bytes, tuple, types.ModuleType, type(None), io.IOBase))


class Collector:
    """Called, it gives (blocks, attributes, variables, states, has_hooks, why, asks_types, classes, functions): see Watch in src/watch.h."""

    def __init__(self, roots):
        self._roots = roots  # a function: callables and blocks from which the code is reached

    def __call__(self):
        return _Search(self._roots()).found()


class _Search:
    def __init__(self, roots):
        from ..gluon.block import Block
        from ..gluon.hybrid_block import HybridBlock
        self._block, self._bases = Block, {Block, HybridBlock, object}
        self._blocks, self._functions, self._methods = {}, {}, {}
        self._classes = {}  # and whether their forward is traced
        self._made = set()  # classes that the code may make objects of
        self._objects = {}
        self._waiting = []
        self._attributes, self._stored, self._sees_all, self._asks_types = set(), set(), False, False
        self._variables, self._why = {}, ""
        self._root = roots[0]
        for root in roots:
            self._reach(root)
            if isinstance(root, types.FunctionType):
                self._variables[id(root), "__dict__"] = root, "__dict__"
            else:
                self._hold(root)
        self._follow()

    # ---- what is reached

    def _reach(self, value):
        """A value that the code may call, or look into."""
        if isinstance(value, self._block):
            self._reach_block(value)
        elif isinstance(value, types.MethodType):
            self._reach(value.__func__)
            self._reach(value.__self__)
            self._hold(value.__self__)
        elif isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self._reach(part)
                self._hold(part)
        elif isinstance(value, types.FunctionType):
            if _is_own(value.__module__):
                for cell in value.__closure__ or ():  # of a function that Python's own makes around the user's
                    self._reach_inside(cell, [content_of(cell)])
            elif id(value) not in self._functions:
                self._functions[id(value)] = value
                self._waiting.append(value)
            inner = getattr(value, "__wrapped__", None)
            if inner is not None:
                self._reach(inner)
        elif isinstance(value, functools._lru_cache_wrapper):
            self._reach_remembering(value)
        elif isinstance(value, type):
            if not _is_own(value.__module__) and not issubclass(value, (self._block, BaseException)):
                self._classes.setdefault(value, True)
                self._made.add(value)
        elif isinstance(value, (list, tuple, dict, *_NAMESPACES)) or not _is_own(type(value).__module__) and not isinstance(value, types.ModuleType):
            if not _is_own(type(value).__module__):
                self._classes[type(value)] = True
            items = list(value.values()) if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
            self._reach_inside(value, (*items[:64], *getattr(value, "__dict__", {}).values()))

    def _hold(self, value):
        """An object of the user's that no variable leads to: a method or partial function has it."""
        if not isinstance(value, (*PLAIN, self._block, type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial)):
            self._variables[id(value), "held"] = types.CellType(value), "held"

    def _reach_inside(self, value, items):
        """What an object holds; each object once."""
        if id(value) in self._objects or len(self._objects) > 4000:
            return
        self._objects[id(value)] = value
        for item in items:
            if not isinstance(item, PLAIN):
                self._reach(item)

    def _reach_remembering(self, value):
        """A function that remembers its results: they must follow from its arguments."""
        inner = value.__wrapped__
        self._reach(inner)
        if _depends_on_more(inner):
            self._why = self._why or f"its code calls {inner.__name__}(), which remembers results and depends on more than its arguments"

    def _reach_block(self, block):
        if id(block) in self._blocks:
            return
        self._blocks[id(block)] = block
        # A forward around the compiled part of the root itself is no part of what is traced.
        is_forward_traced = block is not self._root or not getattr(block, "_is_wrapped", False)
        self._classes[type(block)] = self._classes.get(type(block), False) or is_forward_traced
        for child in block._children.values():
            self._reach_block(child)
        for name, value in block.__dict__.items():
            if name not in block._unwatched and not isinstance(value, PLAIN):
                self._reach(value)

    def _follow(self):
        """Goes through functions, and through the methods of all classes whose names are met, until nothing new comes."""
        seen, attributes = set(), -1
        while self._waiting or len(self._attributes) != attributes or seen != self._classes.items():
            attributes = len(self._attributes)
            while self._waiting:
                self._read(self._waiting.pop())
            for cls, is_forward_traced in list(self._classes.items()):
                seen = (seen - {(cls, False)}) | {(cls, is_forward_traced)}
                for base in cls.__mro__:
                    if base not in self._bases:
                        self._read_methods(base, is_forward_traced)

    def _read_methods(self, cls, is_forward_traced):
        called = self._attributes | {"hybrid_forward"} | ({"forward"} if is_forward_traced else set())
        for name, member in list(vars(cls).items()):
            # Operators, iteration, with: called without being named.
            is_special = name.startswith("__") and (name != "__init__" or cls in self._made)
            if name in called or is_special:
                if hasattr(type(member), "__get__") and not _functions_of(member):
                    self._reach(member)
                for function in _functions_of(member):
                    self._methods[id(function)] = function
                    if id(function) not in self._functions:
                        self._functions[id(function)] = function
                        self._waiting.append(function)

    def _read(self, function):
        names = _names(function.__code__)
        self._attributes |= names.attributes
        self._stored |= names.stored
        own = _is_own(function.__module__)
        self._sees_all |= names.sees_all and not own
        self._asks_types |= names.asks_types and not own
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        for name, cell in cells.items():
            if name != "__class__":
                self._add(cell, name, content_of(cell))
        if own:
            return
        known = function.__globals__
        for name in names.imported & _UNREPEATABLE:
            self._refuse(f"uses {name}")
        for name in names.imported - _UNREPEATABLE:
            self._reach_module(name, names)
        for name in names.attributes & {"__dict__", "__setattr__"}:
            self._why = self._why or f"its code goes round attributes with {name}"
        for name in names.attributes & _FILE_METHODS:
            self._why = self._why or f"its code calls {name}(), which looks at a file or writes one"
        for name in names.globals:
            if name in known:
                self._add(known, name, known[name])
            elif name in _UNSEEN:
                self._why = self._why or f"its code calls {name}()"
            elif name not in vars(builtins):
                self._variables[id(known), name] = known, name  # it may be there later
        if function.__kwdefaults__:  # others are in it when somebody puts them there
            self._variables[id(function), "__kwdefaults__"] = function, "__kwdefaults__"
        for place, defaults in (("__defaults__", function.__defaults__ or ()), ("__kwdefaults__", (function.__kwdefaults__ or {}).values())):
            for default in defaults:
                self._reach(default)
                if not isinstance(default, (int, float, str, type(None), tuple)):
                    self._add(function, place, default)
        for name, *attributes in names.parts:
            value = content_of(cells[name]) if name in cells else known.get(name)
            for attribute in attributes:
                self._add_part(value, attribute)
                if not isinstance(value, types.ModuleType):
                    break
                value = getattr(value, attribute, None)

    def _reach_module(self, name, names):
        """A module that a function imports itself, with what it may take from it."""
        for end in range(name.count(".") + 1):
            part = ".".join(name.split(".")[:end + 1])
            try:
                module = importlib.import_module(part)
            except ImportError:
                return
            if not _is_own(part):
                self._variables[id(sys.modules), part] = sys.modules, part
            for attribute in names.attributes | names.taken:
                if hasattr(module, attribute):
                    self._add_part(module, attribute)

    def _refuse(self, what):
        self._why = self._why or f"its code {what}, which gives something else at every call"

    def _add_part(self, value, attribute):
        """module.attribute or Class.attribute."""
        inside = getattr(value, attribute, None) if isinstance(value, types.ModuleType) else None
        self._refuse_starter(inside)
        if isinstance(value, types.ModuleType) and (value.__name__ in _UNREPEATABLE or getattr(inside, "__name__", "") == "numpy.random"):
            self._refuse(f"uses {value.__name__}.{attribute}")
        elif _is_unforeseeable(inside):
            self._why = self._why or f"its code calls {value.__name__}.{attribute}(), whose result may be another at every call"
        elif isinstance(value, types.ModuleType) and inside is not None and (
                not _is_own(value.__name__) or _is_changeable(inside) or isinstance(inside, types.FunctionType) and not _is_own(inside.__module__)):
            self._add(value.__dict__, attribute, inside)
        elif value is os and attribute == "getenv":
            self._add(os.__dict__, "environ", os.environ)
        elif isinstance(value, type) and attribute in vars(value) and not _is_own(value.__module__):
            self._add(value, attribute, inside)

    def _refuse_starter(self, value):
        if isinstance(value, type) and value.__name__ in _STARTERS and value.__module__.partition(".")[0] in sys.stdlib_module_names:
            self._why = self._why or f"its code makes a {value.__name__}, in which it is not traced"

    def _add(self, owner, name, value):
        """A variable that is watched, and followed."""
        if getattr(value, "__module__", None) in _UNREPEATABLE and callable(value) and not isinstance(value, type):
            self._refuse(f"calls {name}")
        if _is_unforeseeable(value):
            self._why = self._why or f"its code calls {name}(), whose result may be another at every call"
        self._refuse_starter(value)
        if isinstance(value, contextvars.ContextVar) and value.get(self) is self:  # has no value, and gets none back
            self._why = self._why or f"its code uses {name}, a context variable without a value"
        self._reach(value)
        if isinstance(value, types.ModuleType) or isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) and _is_own(value.__module__):
            return
        self._variables[id(owner), name] = owner, name

    # ---- the result

    def found(self):
        """What Watch asks for."""
        attributes, states, has_hooks = [], [], False
        stored_by = {cls: self._stored_by(cls) for cls in dict.fromkeys(map(type, self._blocks.values()))}
        for block in self._blocks.values():
            entries, unwatched = block.__dict__, block._unwatched
            # Attributes of the block's own that the code writes, and whether it reads them too.
            stored = (self._stored & (stored_by[type(block)] | entries.keys())) - unwatched
            states += [(entries, name, self._sees_all or name in self._attributes) for name in sorted(stored)]
            for name, value in entries.items():
                if name not in unwatched and name not in stored and not isinstance(value, self._block) and (self._sees_all or name in self._attributes):
                    attributes.append((entries, name))
            has_hooks |= block is not self._root and bool(block._forward_hooks or block._forward_pre_hooks)
        for cls in self._classes:
            self._add_class_attributes(cls)
        self._add_parameter_attributes()
        classes = tuple(c for c in self._classes if not _is_own(c.__module__))
        functions = tuple(f for f in self._functions.values() if not _is_own(f.__module__))
        return ((*self._structure(), *self._methods.values()), attributes, tuple(self._variables.values()), states, has_hooks, self._why,
                self._asks_types, classes, functions)

    def _structure(self):
        """The blocks, each with its children in their order, one that stands there twice too, and with functions put in the place of its own."""
        for block in self._blocks.values():
            yield block
            yield from block._children.values()
            yield from (block.__dict__[name] for name in ("forward", "hybrid_forward") if name in block.__dict__)
            yield None

    def _add_parameter_attributes(self):
        for name in self._attributes & {"grad_req", "lr_mult", "wd_mult"}:
            for block in self._blocks.values():
                for parameter in block._reg_params.values():
                    self._variables[id(parameter), name] = parameter, name

    def _stored_by(self, cls):
        """Names that the reached methods of a class write."""
        stored = set()
        for base in cls.__mro__:
            for member in vars(base).values() if base not in self._bases else ():
                for function in _functions_of(member):
                    if id(function) in self._functions:
                        stored |= _names(function.__code__).stored
        return stored

    def _add_class_attributes(self, cls):
        for base in (*cls.__mro__, *type(cls).__mro__):
            if base in self._bases or _is_own(base.__module__):
                continue
            for name, value in vars(base).items():
                if name not in self._attributes or name.startswith("__") or callable(value) or _functions_of(value):
                    continue
                # A descriptor of the user's runs code when it is asked for: the object itself is watched.
                place = types.CellType(value) if hasattr(type(value), "__get__") and not _is_own(type(value).__module__) else base
                self._variables[id(base), name] = place, name


def _depends_on_more(value, depth=0):
    """Whether what a function gives may follow from other things than its arguments: it writes, or sees something that can change."""
    if not isinstance(value, types.FunctionType):
        return not callable(value) and not isinstance(value, (*PLAIN, tuple, frozenset, types.ModuleType))
    if _is_own(value.__module__) or depth > 8:
        return _is_unforeseeable(value)
    names = _names(value.__code__)
    seen = [content_of(cell) for cell in value.__closure__ or ()] + [value.__globals__.get(name) for name in names.globals]
    return bool(names.stored) or any(_depends_on_more(v, depth + 1) for v in seen if v is not value)


def _functions_of(member):
    if isinstance(member, (staticmethod, classmethod)):
        member = member.__func__
    elif isinstance(member, (functools.partialmethod, functools.cached_property, functools.singledispatchmethod)):
        member = member.func
    members = (member.fget, member.fset) if isinstance(member, property) else (member,)
    return [m for m in members if isinstance(m, types.FunctionType)]
