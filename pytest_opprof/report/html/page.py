"""The base of all pages: the environment of their templates, their security policy, and writing them to a file."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ... import __version__, units
from ...errors import UsageError
from ...machine.atomic_write import write_atomically
from ..escaping import terminal
from . import marks

_TEMPLATES = Path(__file__).parent / "templates"
NONE = "-"
"""In place of a number that is not known."""


def rendered(template: str, **values: object) -> str:
    """Return the page that *template* makes of *values*."""
    return _environment().get_template(template).render(values)


def write(path: Path, page: str, flag: str) -> None:
    """Write a page atomically, as *flag* asks for. Raises UsageError when it cannot be written."""
    try:
        write_atomically(path, page)
    except OSError as error:
        raise UsageError(f"{flag}: {path} cannot be written: {error.strerror or error}") from error


def check_name(path: Path | None, flag: str) -> None:
    """Raise UsageError for a file whose name does not say that it is a page: nobody looks for one in ``x.csv``."""
    if path is not None and path.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{flag} {path}: writes a page to read in a browser; name it {path.stem or 'opprof'}.html")


def arrow(before: str, now: str) -> str:
    """Return a value before and now.

    >>> arrow("1", "3"), arrow("3", "3")
    ('1 → 3', '3')
    """
    return now if before == now else f"{before} → {now}"


def signed(value: float, text: str) -> str:
    """Return *text*, which is of the amount of *value*, with the sign of *value*."""
    return f"{'+' if value > 0 else '-' if value < 0 else ''}{text}"


@cache
def _environment() -> Environment:
    """Return the environment of the templates. They escape all text but their own."""
    style, script = ((_TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Names come out of files and tests: a character that is not printed, or turns the text around, is spelled out.
        finalize=lambda value: value if isinstance(value, (Markup, int, float)) else terminal(str(value)),
    )
    environment.filters |= {
        "ns": _known(units.format_ns),
        "bytes": _known(units.format_bytes),
        "flops": _known(units.format_flops),
        "share": _known(units.format_share),
        "rate": lambda value: value if value is not None and isfinite(value) else None,
        "grouped": lambda number: f"{number:,}".replace(",", " "),
        "zip": zip,
        "px": lambda length: f"{length:.1f}".removesuffix(".0"),
    }
    environment.globals |= {
        "marks": marks,
        "plural": units.plural,
        "change": units.format_change,
        "signed": signed,
        "arrow": arrow,
        "NONE": NONE,
        "version": __version__,
        "style": Markup(style),
        "script": Markup(script),
        # No host is in it, and no 'unsafe-inline': a name that got around the escaping would still not run.
        "policy": f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none';"
        " form-action 'none'",
    }
    return environment


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _known(write: Any) -> Any:
    return lambda value: NONE if value is None else write(value)
