"""Pretty printers for GDB: Tensor, Shape and DType as one reads them. In GDB: source tools/gluino_gdb.py, or put that into ~/.gdbinit.

A tensor's type, shape and first elements come from the library's function gluino_debug_text, called in the program that is being looked at;
of a core file, which can call nothing, only the address is shown.
"""
import gdb
import gdb.printing


class ShapePrinter:
    """(2, 3)"""

    def __init__(self, value):
        self._value = value

    def to_string(self):
        count, capacity = int(self._value["size_"]), int(self._value["capacity_"])
        if not 0 <= count <= 4096:
            return "a shape that is not initialised"
        first = self._value["heap_"] if capacity else self._value["inline_"]
        extents = [str(int(first[i])) for i in range(count)]
        return f"({', '.join(extents)}{',' if count == 1 else ''})"


class DTypePrinter:
    """float32"""

    def __init__(self, value):
        self._value = value

    def to_string(self):
        names = {field.enumval: field.name.rpartition("::")[2] for field in self._value.type.strip_typedefs().fields()}
        number = int(self._value.cast(gdb.lookup_type("long")))
        return names.get(number, f"DType({number}), which is none")


class TensorPrinter:
    """float32 (2, 3) on cpu(0): [1, 2, 3, 4, 5, 6]"""

    def __init__(self, value):
        self._value = value

    def to_string(self):
        try:
            function = gdb.parse_and_eval("(const char *(*)(const void *))gluino_debug_text").dereference()
            return function(self._value.address).string()
        except gdb.error:
            pointer = int(self._value["impl_"]["p_"])
            return f"Tensor at 0x{pointer:x}" if pointer else "null tensor"


def _printers():
    printers = gdb.printing.RegexpCollectionPrettyPrinter("gluino")
    printers.add_printer("Shape", "^gluino::Shape$", ShapePrinter)
    printers.add_printer("DType", "^gluino::DType$", DTypePrinter)
    printers.add_printer("Tensor", "^gluino::Tensor$", TensorPrinter)
    return printers


gdb.printing.register_pretty_printer(None, _printers(), replace=True)
