"""Escape names for each kind of output. Names come out of files and tests, so none of them is trusted.

A name may move a terminal's cursor, begin a line that GitHub runs as a command, be a link or a mention in Markdown, or
a formula in a spreadsheet. Pages escape by Jinja2's autoescape, with `terminal` for characters that a browser does not
show.
"""

from __future__ import annotations

import re

# ``::error file=a::text`` at the beginning of a line, and ``##[error]`` anywhere: commands in a workflow's log.
_COMMAND = re.compile(r"^(\s*):(?=:.*::)|#(?=#\[)")
# Markup of Markdown, HTML or GitHub (@name, #1, $x$, www.a); an underscore inside a word is none.
_MARKUP = re.compile(r"[&<>\"@|`*\[\]\\~$#]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=//)|(?<=[wW]{3})\.")
_FORMULAS = ("=", "+", "-", "@")


def terminal(text: str) -> str:
    """Return *text* safe to print as a line, or as a part of one: also where GitHub reads the log.

    >>> print(terminal("a\\x1b[31mb\\n::error::c"), terminal("::error file=a.py::c"), terminal("##[error]c"))
    a\\x1b[31mb\\n::error::c \\x3a:error file=a.py::c \\x23#[error]c
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    if "::" in text or "##[" in text:
        text = _COMMAND.sub(lambda found: f"{found[1] or ''}\\x{'23' if found[0] == '#' else '3a'}", text)
    return text


def markdown(text: str) -> str:
    """Return *text* for Markdown: no markup, no link, and nobody is mentioned.

    >>> markdown("test_a[x|y]"), markdown("www.a.b")
    ('test_a&#91;x&#124;y&#93;', 'www&#46;a.b')
    """
    # GitHub looks for mentions after entities are read; only the zero-width space stops it.
    return _MARKUP.sub(lambda found: f"&#{ord(found[0])};{'&#8203;' * (found[0] == '@')}", terminal(text))


def csv_cell(text: str) -> str:
    """Return *text* as a cell of CSV that no spreadsheet runs as a formula.

    >>> csv_cell("=1+1"), csv_cell("aten::add")
    ("'=1+1", 'aten::add')
    """
    text = terminal(text)
    return f"'{text}" if text.lstrip().startswith(_FORMULAS) else text
