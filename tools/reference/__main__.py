#!/usr/bin/env python3
"""Writes the reference as static pages with search: operators from the registry, layers and C++ from the public headers, Python from the
package, and the documents of docs/ beside them.

    PYTHONPATH=$(make -s pythonpath) /usr/bin/python3 tools/reference build/docs     # make docs
"""
import html
import json
import pathlib
import re
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent)]

import headers  # noqa: E402
import markdown  # noqa: E402
import operators  # noqa: E402
import python_names  # noqa: E402

GUIDES = ["README.md", *("docs/" + name + ".md" for name in (
    "tutorial", "semantics", "hybridize", "hybridizable", "performance", "python", "command_line", "serve", "deploy", "distributed", "onnx",
    "files", "architecture", "compatibility")), "HACKING.md", "CONTRIBUTING.md", "CHANGELOG.md"]
LAYERS = ("nn", "rnn", "loss")


def anchor(text):
    return re.sub(r"[^\w.]", "_", text)


def first_sentence(text):
    return re.split(r"(?<=[.:;])\s", text.strip(), maxsplit=1)[0][:160]


class Site:
    """Pages in groups, and the index that search reads."""

    def __init__(self, folder):
        self.folder, self.pages, self.index = folder, [], []

    def add(self, group, page, title, body, shown=True):
        self.pages.append((group, page, title, body, shown))

    def enter(self, name, kind, page, text=""):
        self.index.append([name, kind, page, first_sentence(text)])

    def write(self):
        version = (ROOT / "VERSION").read_text().strip()
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("style.css", "search.js"):
            shutil.copy(HERE / name, self.folder)
        (self.folder / "index.js").write_text("const INDEX = " + json.dumps(self.index, ensure_ascii=False, separators=(",", ":")) + ";\n")
        for _, page, title, body, _ in self.pages:
            text = (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)} - Gluino</title>'
                    '<link rel="stylesheet" href="style.css"></head><body><header><a href="index.html">Gluino</a>'
                    f'<span class="version">{version}</span><a href="operators.html">Operators</a><a href="layers.html">Layers</a>'
                    '<a href="cpp.html">C++</a><a href="python_modules.html">Python</a>'
                    '<input id="search" type="search" placeholder="search ( / )" autocomplete="off"><div id="found"></div></header>'
                    f'<main>{self.menu(page)}<article>{body}</article></main>'
                    '<script src="index.js"></script><script src="search.js"></script></body></html>\n')
            (self.folder / page).write_text(text)

    def menu(self, here):
        """All pages of this page's group, the first of every other one."""
        lines, last = ["<nav>"], None
        open_group = next(group for group, page, *_ in self.pages if page == here)
        for group, page, title, _, shown in self.pages:
            if page != here and (not shown or (group == last and group != open_group)):
                continue
            if group != last:
                lines.append(f"<h2>{group}</h2>")
                last = group
            lines.append(f'<a href="{page}"{" class=here" if page == here else ""}>{html.escape(title)}</a>')
        return "".join(lines) + "</nav>"


def add_guides(site):
    for path in GUIDES:
        source = ROOT / path
        text = source.read_text()
        page = "index.html" if path == "README.md" else source.stem.lower() + ".html"
        title = re.match(r"# (.*)", text)[1]
        body = markdown.render(text)
        if page == "index.html":
            body += '<p id="files" class="base">Links to single files lead to the project\'s sources, which this reference does not hold.</p>'
        site.add("Guides", page, title, body)
        for heading in re.findall(r"(?m)^##+ (.*)", re.sub(r"```.*?```", "", text, flags=re.S)):
            site.enter(heading.replace("`", ""), f"in {title}", f"{page}#{markdown.slug(heading)}")
    decisions = sorted((ROOT / "docs/decisions").glob("*.md"))
    listed = []
    for source in decisions:
        text = source.read_text()
        title = re.match(r"# (.*)", text)[1]
        page = source.stem.lower() + ".html"
        site.add("Guides", page, title, markdown.render(text), shown=False)
        site.enter(title, "decision", page)
        listed.append(f'<li><a href="{page}">{html.escape(title)}</a></li>')
    site.add("Guides", "decisions.html", "Decisions", "<h1>Decisions</h1><p>Why things are as they are.</p><ul>" + "".join(listed) + "</ul>")


def operator_entry(core, name, spellings):
    about = core.describe_operator(name)
    aliases = sorted(set(spellings) - {name})
    inputs = [f"{n}{'...' if about['variadic'] and i == len(about['inputs']) - 1 else ''}{' = None' if optional else ''}"
              for i, (n, optional, _) in enumerate(about["inputs"])]
    arguments = inputs + [f"{n}{'' if required else f' = {default}'}" for n, _, required, default, _ in about["fields"]]
    notes = [f"No gradient: {about['not_differentiable']}."] * bool(about["not_differentiable"])
    notes += ["Random."] * about["random"] + ["Training and prediction differ."] * about["mode_dependent"]
    notes += ["Made of other operators."] * about["composed"] + ["The shape of the result depends on values."] * about["dynamic_shape"]
    states = [n for n, _, is_state in about["inputs"] if is_state]
    notes += [f"Updates {', '.join(states)}."] * bool(states)
    notes += [f"Taken and without effect here: {', '.join(about['without_effect'])}."] * bool(about["without_effect"])
    rows = "".join(f"<tr><td><code>{html.escape(n)}</code></td><td><code>{html.escape(kind)}</code></td>"
                   f"<td>{'needed' if required else '<code>' + html.escape(default) + '</code>'}</td><td>{markdown.inline(doc)}</td></tr>"
                   for n, kind, required, default, doc in about["fields"])
    table = f"<table><tr><th>attribute</th><th>C++ type</th><th>preset</th><th></th></tr>{rows}</table>" if rows else ""
    also = f'<p class="aliases">also {", ".join(f"<code>{html.escape(a)}</code>" for a in aliases)}</p>' if aliases else ""
    return (f'<h3 id="{anchor(name)}">{html.escape(name)}</h3><dl><dt>{html.escape(name)}({html.escape(", ".join(arguments))})</dt></dl>'
            f"<p>{markdown.inline(' '.join([about['doc'], *notes]))}</p>{also}{table}"), about["doc"], aliases


def add_operators(site):
    from mxnet import _core
    groups, names = operators.families()
    overview = [f"<h1>Operators</h1><p>{len(names)} operators under {sum(map(len, names.values()))} names. Each is a C++ function of <code>gluino/ops.h</code>, "
                "a Python function of <code>mx.nd</code>, <code>mx.sym</code>, <code>mx.np</code> or <code>mx.npx</code>, and a node of symbols and files.</p>"]
    pages = []
    for number, (heading, members) in enumerate(groups.items()):
        page = f"operators_{number}.html"
        body = [f"<h1>{html.escape(heading)}</h1>"]
        overview.append(f'<h2><a href="{page}">{html.escape(heading)}</a></h2><div class="index">')
        for name in members:
            entry, doc, aliases = operator_entry(_core, name, names[name])
            body.append(entry)
            overview.append(f'<a href="{page}#{anchor(name)}">{html.escape(name)}</a><br>')
            for spelling in (name, *aliases):
                site.enter(spelling, "operator", f"{page}#{anchor(name)}", doc)
        overview.append("</div>")
        pages.append((page, heading, "".join(body)))
    site.add("Operators", "operators.html", "All operators", "".join(overview))
    for page, heading, body in pages:
        site.add("Operators", page, heading, body)


def declaration_html(d, page, site):
    """One declaration; classes with their members in a list."""
    site.enter(d.full_name, d.kind, f"{page}#{anchor(d.full_name)}", d.doc)
    text = f'<dt id="{anchor(d.full_name)}">{html.escape(d.code)}</dt>'
    doc = f"<p>{markdown.inline(d.doc)}</p>" if d.doc else ""
    members = ""
    for m in d.members:
        site.enter(f"{d.full_name}::{m.name}", "member", f"{page}#{anchor(d.full_name)}", m.doc)
        members += f"<dt>{html.escape(m.code)}</dt>" + (f"<dd>{markdown.inline(m.doc)}</dd>" if m.doc else "")
    return text + (f"<dd>{doc}{f'<dl>{members}</dl>' if members else ''}</dd>" if doc or members else "")


def add_headers(site, generated):
    listed, layers = [], []
    paths = [p for p in sorted((ROOT / "include/gluino").glob("*.h")) if p.name not in ("c_api.h", "dlpack.h")]
    pages = []
    for path in [*paths, *([generated / "ops.h"] if (generated / "ops.h").exists() else [])]:
        doc, declared = headers.read_header(path)
        page = f"header_{path.stem}.html"
        listed.append(f'<tr><td><a href="{page}">gluino/{path.name}</a></td><td>{markdown.inline(doc)}</td></tr>')
        if path.name == "ops.h":  # its functions are the operators, which have pages
            listed[-1] = f'<tr><td><a href="operators.html">gluino/{path.name}</a></td><td>{markdown.inline(doc)}</td></tr>'
            continue
        body = "".join(declaration_html(d, page, site) for d in declared)
        pages.append((page, path.name, f"<h1>gluino/{path.name}</h1><p>{markdown.inline(doc)}</p><dl>{body}</dl>"))
        if path.stem in LAYERS:
            blocks = [d for d in declared if d.kind == "class"]
            layers.append((path.stem, page, blocks))
    site.add("C++", "cpp.html", "Headers", "<h1>C++ headers</h1><p><code>#include &lt;gluino/gluino.h&gt;</code> brings all of them.</p><table>" + "".join(listed) + "</table>")
    for page, name, body in pages:
        site.add("C++", page, name, body)
    c_text = (ROOT / "include/gluino/c_api.h").read_text()
    site.add("C++", "header_c_api.html", "C: c_api.h", f"<h1>gluino/c_api.h</h1><pre>{html.escape(c_text)}</pre>")
    for name in sorted(set(re.findall(r"\b(gluino_\w+)\(", c_text))):
        site.enter(name, "C function", "header_c_api.html")
    return sorted(layers, key=lambda layer: LAYERS.index(layer[0]))


def add_layers(site, layers, signatures):
    body = ["<h1>Layers and losses</h1><p>As C++ and as Python make them.</p>"]
    for stem, page, blocks in layers:
        body.append(f'<h2 id="{stem}">{stem}.h</h2><table><tr><th>class</th><th>C++</th><th>Python</th><th></th></tr>')
        for d in blocks:
            made = [m.code.replace("explicit ", "") for m in d.members if m.name == d.name and "&&" not in m.code]
            python = signatures.get(d.name, "")
            body.append(f'<tr><td><a href="{page}#{anchor(d.full_name)}">{d.name}</a></td><td>{"<br>".join(f"<code>{html.escape(c)}</code>" for c in made)}</td>'
                        f"<td>{f'<code>{html.escape(python)}</code>' if python else ''}</td><td>{markdown.inline(d.doc)}</td></tr>")
        body.append("</table>")
    site.add("Layers", "layers.html", "Layers and losses", "".join(body))


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/docs").resolve()
    generated = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "build/release/generated") / "gluino"
    site = Site(folder)
    add_guides(site)
    add_operators(site)
    later = Site(folder)  # the layers' page stands before the headers that it is made of
    layers = add_headers(later, generated)
    add_layers(site, layers, python_names.signatures(("gluon.nn", "gluon.rnn", "gluon.loss", "gluon.contrib.nn")))
    site.pages += later.pages
    site.index += later.index
    python_names.add_modules(site, anchor)
    site.write()
    print(f"{folder}/index.html: {len(site.pages)} pages, {len(site.index)} names to search for")


if __name__ == "__main__":
    main()
