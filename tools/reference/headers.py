"""Reads the public C++ headers: what they declare, and the comments that stand before or behind it.

A scanner and no parser: the headers are formatted by clang-format, so a declaration ends at its `;` or with its body's `}`, and a comment
belongs to the declaration below it, or to the one on its line.
"""
import dataclasses
import pathlib
import re

COMMENT = re.compile(r"\s*//\s?(.*)")
ACCESS = re.compile(r"(public|private|protected):$")
SCOPE = re.compile(r"(?:template <.*?>\s*)?(?:inline )?(namespace|class|struct|enum class|enum|union)\s+(?:\[\[.*?\]\]\s*)?([\w:]+)?")
MEMBER_INITIALISERS = re.compile(r"\)\s*((?:const|noexcept|override)\s*)*:\s*\w+[({].*$", re.S)
NOT_SHOWN = re.compile(r"^(using (\w+::)+\w+$|friend |static_assert|GLUINO_\w+\(?|(template <.*?>\s*)?(class|struct) [\w<>]+$|(virtual )?~\w+\()"
                       r"|= delete$|^\w+\(\) = default$|>::\w+\(")


@dataclasses.dataclass
class Declaration:
    """What a header declares: `kind` is function, variable, type, class, struct, enum or macro; classes have members."""
    kind: str
    name: str
    code: str
    doc: str
    scope: str = ""
    members: list = dataclasses.field(default_factory=list)

    @property
    def full_name(self):
        return f"{self.scope}::{self.name}" if self.scope else self.name


def _close(text, start, opening, closing):
    """The index behind the bracket that closes the one at `start`; brackets in strings and comments do not count."""
    depth, i = 0, start
    while i < len(text):
        if text.startswith("//", i):
            i = text.find("\n", i)
            continue
        if text[i] in "\"'" and not (text[i] == "'" and text[i - 1].isalnum()):
            quote, i = text[i], i + 1
            while text[i] != quote:
                i += 2 if text[i] == "\\" else 1
        elif text[i] == opening:
            depth += 1
        elif text[i] == closing:
            depth -= 1
            if depth == 0:
                return i + 1
        i += 1
    return len(text)


def _declared_end(text, start):
    """Where the declaration at `start` ends, and where its body begins (or None): at its `;`, or behind its body."""
    i = start
    while i < len(text):
        if text.startswith("//", i):
            i = text.find("\n", i)
        elif text[i] == "(":
            i = _close(text, i, "(", ")")
            continue
        elif text[i] == ";":
            return i + 1, None
        elif text[i] == "{":
            end = _close(text, i, "{", "}")
            following = text[end:end + 2].lstrip(" ")[:1]
            if following in (";", ","):  # a type, or a variable with its value in braces
                if following == ",":
                    i = end
                    continue
                return text.index(";", end) + 1, i
            if text[end:end + 3].startswith(", ") or re.match(r"\s*\{", text[end:]):  # member{value} of a constructor, its body next
                i = end
                continue
            return end, i
        i += 1
    return len(text), None


def _without_arguments(code):
    """Without what stands between angle brackets: std::function<void(int)> f becomes std::function f."""
    while code != (code := re.sub(r"<[^<>]*>", "", code.replace("->", "  "))):
        pass
    return code


def _name_of(code):
    """The name that a declaration declares."""
    operator = re.search(r"operator\s*([^\s(]+|\(\))\s*\(", code)
    if operator:
        return f"operator{operator[1]}"
    head = re.sub(r"^template\s+", "", _without_arguments(code))
    alias = re.match(r"(?:using|concept)\s+(\w+)\s*=", head)
    if alias:
        return alias[1]
    call = re.search(r"([~\w]+)\s*\(", re.sub(r"requires\s*\([^)]*\)", "", head))
    if call and not re.search(r"=(?!=)", head[:call.start()]):
        return call[1]
    variable = re.search(r"(\w+)\s*(?:\[\w*\])?\s*(?:=.*|\{.*\})?;?$", head.split(",")[0], re.S)
    return variable[1] if variable else ""


def _kind_of(code):
    if code.startswith("using") or "concept " in code:
        return "type"
    return "function" if re.search(r"\w\s*\(|operator", _without_arguments(code).split("=")[0]) else "variable"


def _shown(code):
    """A declaration without its body, on as few lines as it needs."""
    code = MEMBER_INITIALISERS.sub(lambda m: ")" + (m[1] or ""), code)
    return re.sub(r"\s*\n\s*", " ", re.sub(r"//[^\n]*", "", code)).strip().rstrip(";{ ").rstrip()


def _scan(text, scope, is_public, owner=None):
    """The declarations in the text of one scope."""
    found, comment, i, shown = [], [], 0, is_public
    while i < len(text):
        line_end = text.find("\n", i)
        line_end = len(text) if line_end < 0 else line_end
        line = text[i:line_end].strip()
        if not line:
            comment, i = [], line_end + 1
            continue
        if m := COMMENT.match(line):
            comment, i = [*comment, m[1]], line_end + 1
            continue
        if line.startswith("#"):
            while text[:line_end].endswith("\\"):
                line_end = (text + "\n").find("\n", line_end + 1)
            if macro := re.match(r"#define (\w+(\([\w, .]*\))?)", line):
                if comment:
                    found.append(Declaration("macro", macro[1].split("(")[0], macro[1], " ".join(comment)))
            comment, i = [], line_end + 1
            continue
        if m := ACCESS.match(line.split("//")[0].strip()):
            shown, comment, i = m[1] == "public", [], line_end + 1
            continue
        start = i + (len(text[i:line_end]) - len(text[i:line_end].lstrip()))
        end, body = _declared_end(text, start)
        line_end = (text + "\n").find("\n", end)
        behind = re.search(r"//\s?(.*)", text[end:line_end])
        code = text[start:end]
        opener = SCOPE.match(code)
        if opener and body is not None and "(" not in code[:body - start].split("requires")[0].split("alignas")[0]:
            inner = text[body + 1:_close(text, body, "{", "}") - 1]
            first = re.match(r"[ \t]*//\s?([^\n]*)", inner)
            inner = inner[first.end():] if first else inner
            kind, name = opener[1].split()[0], opener[2] or ""
            if kind == "namespace":
                if name and "detail" not in name.split("::"):
                    found += _scan(inner, f"{scope}::{name}" if scope else name, True)
                comment = []
            elif shown:
                doc = " ".join([*comment, first[1] if first else "", behind[1] if behind else ""]).strip()
                members = [] if kind == "enum" else _scan(inner, "", kind == "struct", name)
                head = _shown(code if kind == "enum" else code[:body - start])
                found.append(Declaration(kind, name, head, doc, scope, members))
        elif shown and not NOT_SHOWN.match(_shown(code)):
            declared = _shown(code[:body - start] if body is not None and not code.rstrip().endswith("};") else code)
            doc = " ".join([*comment, behind[1] if behind else ""]).strip()
            name = _name_of(declared)
            if name and not name.endswith("_"):
                found.append(Declaration(_kind_of(declared), name, declared, doc, scope))
        comment, i = [], line_end + 1
    return found


def read_header(path: pathlib.Path):
    """(the comment at its head, [Declaration])."""
    text = path.read_text()
    head = []
    for line in text.splitlines():
        if not (m := COMMENT.match(line)):
            break
        head.append(m[1])
    body = text[text.index("#pragma once"):] if "#pragma once" in text else text
    return " ".join(head), _scan(re.sub(r"/\*.*?\*/", "", body, flags=re.S), "", True)
