"""As much of Markdown as README.md and docs/ use, as HTML: headings, paragraphs, nested lists, tables, code and quotes."""
import html
import re


def slug(heading):
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading).lower()).replace(" ", "-")


def inline(text):
    """Code, links and emphasis of one paragraph."""
    kept = []

    def keep(html_text):
        kept.append(html_text)
        return f"\0{len(kept) - 1}\0"

    text = re.sub(r"`+([^`]+)`+", lambda m: keep(f"<code>{html.escape(m[1], quote=False)}</code>"), text)
    text = html.escape(text, quote=False)
    text = re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", lambda m: f'<a href="{target(m[2])}">{m[1]}</a>', text)
    text = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)
    text = re.sub(r"(?<![\w*])\*(\S(?:.*?\S)?)\*(?![\w*])", r"<i>\1</i>", text)
    while "\0" in text:
        text = re.sub("\0(\\d+)\0", lambda m: kept[int(m[1])], text)
    return text


def target(link):
    """Where a link of a document leads from its page: documents have pages, other files of the project are only named."""
    if link.startswith(("http", "#")):
        return link
    path, _, anchor = link.partition("#")
    name = path.strip("/").split("/")[-1]
    if path.endswith(".md"):
        return name[:-3].lower() + ".html" + (f"#{anchor}" if anchor else "")
    return f"header_{name[:-2]}.html" if path.endswith(".h") and "gluino/" in path else "index.html#files"


def _cells(row):
    row = re.sub(r"`[^`]*`", lambda m: m[0].replace("|", "\1"), row.strip().strip("|").replace("\\|", "\1"))
    return [cell.strip().replace("\1", "|") for cell in row.split("|")]


def _table(rows):
    head, body = _cells(rows[0]), [_cells(r) for r in rows[2:]]
    lines = "".join("<tr>" + "".join(f"<td>{inline(c)}</td>" for c in row) + "</tr>" for row in body)
    heading = "".join(f"<th>{inline(c)}</th>" for c in head)
    return f"<table><tr>{heading}</tr>{lines}</table>" if any(head) else f"<table>{lines}</table>"


def _list(lines):
    """A list whose items may hold lists of their own."""
    numbered = re.match(r"\d+\.", lines[0]) is not None
    items = []
    for line in lines:
        if re.match(r"(?:[-*]|\d+\.) ", line):
            items.append([re.sub(r"^(?:[-*]|\d+\.) ", "", line)])
        else:
            items[-1].append(re.sub(r"^ {2,3}", "", line))
    tag = "ol" if numbered else "ul"
    return f"<{tag}>" + "".join(f"<li>{_unwrapped(render(chr(10).join(item)))}</li>" for item in items) + f"</{tag}>"


def _unwrapped(text):
    return text[3:text.index("</p>")] + text[text.index("</p>") + 4:] if text.startswith("<p>") else text


def render(text):
    """The HTML of a document."""
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.S)
    lines, out, i = text.split("\n"), [], 0

    def taken(test):
        nonlocal i
        start = i
        while i < len(lines) and test(lines[i]):
            i += 1
        return lines[start:i]

    while i < len(lines):
        line = lines[i]
        if not line.strip():
            i += 1
        elif line.startswith("```"):
            i += 1
            code = taken(lambda s: not s.startswith("```"))
            i += 1
            out.append(f"<pre>{html.escape(chr(10).join(code), quote=False)}</pre>")
        elif line.startswith("    "):
            code = taken(lambda s: s.startswith("    "))
            out.append(f"<pre>{html.escape(chr(10).join(c[4:] for c in code), quote=False)}</pre>")
        elif m := re.match(r"(#+) (.*)", line):
            i += 1
            out.append(f'<h{len(m[1])} id="{slug(m[2])}">{inline(m[2])}</h{len(m[1])}>')
        elif line.startswith("|"):
            out.append(_table(taken(lambda s: s.startswith("|"))))
        elif re.match(r"(?:[-*]|\d+\.) ", line):
            out.append(_list(taken(lambda s: re.match(r"(?:[-*]|\d+\.) | {2,}\S", s))))
        elif line.startswith(">"):
            out.append(f"<blockquote>{render(chr(10).join(q[1:].lstrip() for q in taken(lambda s: s.startswith('>'))))}</blockquote>")
        else:
            words = taken(lambda s: s.strip() and not re.match(r"#|\||```|(?:[-*]|\d+\.) ", s))
            out.append(f"<p>{inline(' '.join(words) if words else lines[i])}</p>")
            i += 0 if words else 1
    return "\n".join(out)
