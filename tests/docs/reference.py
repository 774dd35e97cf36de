"""Write docs/reference/ from the code: ``make reference``. A test compares what is there with what this would write."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest_opprof
from pytest_opprof import plugin
from pytest_opprof.cli import main
from pytest_opprof.frameworks.files.formats import FORMATS, format_of
from pytest_opprof.ops import names

DOCS = Path(__file__).parents[2] / "docs"
SCHEMAS = Path(pytest_opprof.__file__).parent / "schema"


def pages() -> dict[str, str]:
    """Return the pages by their names."""
    written = {"flags": flags, "commands": commands, "ops": ops, "formats": formats, "files": files}
    return {f"{name}.md": "\n".join(page()) + "\n" for name, page in written.items()}


class _Parser:
    """Stands in for pytest's parser, to see what the plugin adds to it."""

    def __init__(self) -> None:
        self.flags: list[tuple[str, str]] = []
        self.ini: list[tuple[str, str]] = []

    def getgroup(self, *_: str) -> _Parser:
        return self

    def addoption(self, flag: str, *, help: str, metavar: str = "", **_: object) -> None:
        if help != argparse.SUPPRESS:
            self.flags.append((f"{flag}={metavar}" if metavar else flag, help.replace("%%", "%")))

    def addini(self, name: str, text: str, **_: object) -> None:
        if not text.startswith("gone: "):
            self.ini.append((name, text.replace("%%", "%")))


def flags() -> Iterator[str]:
    """Yield the page of marks, flags and ini options."""
    parser = _Parser()
    plugin.pytest_addoption(parser)  # type: ignore[arg-type]
    yield "# Marks, flags and ini options\n\n## Marks\n"
    for mark in plugin.MARKS:
        signature, _, text = mark.partition("): ")
        yield f"`@pytest.mark.{signature})`: {text}\n"
    yield "[All limits of a budget](../budgets.md).\n\n## Flags of pytest\n"
    yield from _table(("flag", ""), parser.flags)
    yield "\n## Ini options\n"
    yield from _table(("option", ""), parser.ini)


def commands() -> Iterator[str]:
    """Yield the page of the command line."""
    yield "# Commands\n\nExit codes: 0 ok, 1 a finding, 2 bad usage or input, 130 interrupted."
    for action in main.parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            told = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, command in action.choices.items():
                yield from _command(command, command.description or told[name])


def _command(parser: argparse.ArgumentParser, text: str) -> Iterator[str]:
    yield f"\n## {parser.prog}\n\n{text[:1].upper()}{text[1:].rstrip('.')}{'' if text.endswith('?') else '.'}\n"
    rows = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            told = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, command in action.choices.items():
                yield from _command(command, told[name])
        elif not isinstance(action, argparse._HelpAction) and action.help != argparse.SUPPRESS:
            values = (
                "|".join(map(str, action.choices)) if action.choices else str(action.metavar or action.dest.upper())
            )
            value = "" if action.nargs == 0 else values
            name = " ".join([", ".join(action.option_strings), value]).strip()
            rows.append((name, (action.help or "") % {**vars(action), "prog": parser.prog}))
    if rows:
        yield from _table(("argument", ""), rows)


def ops() -> Iterator[str]:
    """Yield the page of names."""
    yield "# Canonical ops\n\nThe ops that budgets and tables name, and the raw names that mean them.\n"
    yield from _table(("op", "raw names of", ""), [(op, of, " ".join(raws.split())) for op, of, raws in names.rows()])


def formats() -> Iterator[str]:
    """Yield the page of saved profiles."""
    yield "# Formats of saved profiles\n\nWhat `opprof show`, `check`, `diff` and `convert` read.\n"
    untried = " (as documented, not tried on recordings)"
    titles = [(name, format_of(name).title, format_of(name).as_documented) for name in FORMATS]
    yield from _table(("format", ""), [(name, title + untried * is_untried) for name, title, is_untried in titles])


def files() -> Iterator[str]:
    """Yield the page of schemas."""
    yield "# Files\n\nWhat pytest-opprof writes, by its published schemas in the package (`pytest_opprof/schema`)."
    for path in sorted(SCHEMAS.glob("*.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        yield f"\n## {path.name}\n\n{schema.get('title', '')}"
        for name, of in schema["$defs"].items():
            if "enum" in of:
                yield f"\n### {name}\n\n{_type(of)}."
            elif "properties" in of:
                yield f"\n### {name}\n\n{of.get('description', '')}\n"
                yield from _table(
                    ("field", "type", ""),
                    [(field, _type(what), what.get("description", "")) for field, what in of["properties"].items()],
                )


def _type(what: Mapping[str, Any]) -> str:
    if "$ref" in what:
        return str(what["$ref"]).rsplit("/", 1)[1]
    if "anyOf" in what:
        return " or ".join(map(_type, what["anyOf"]))
    if "enum" in what:
        return ", ".join(map(json.dumps, what["enum"]))
    if what.get("type") == "array" and isinstance(what.get("items"), Mapping):
        return f"array of {_type(what['items'])}"
    if isinstance(what.get("additionalProperties"), Mapping):
        return f"object of {_type(what['additionalProperties'])}"
    return str(what.get("type", "anything"))


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for name, *others in rows:
        cells = [f"`{name}`", *others]
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    (DOCS / "reference").mkdir(exist_ok=True)
    for name, text in pages().items():
        (DOCS / "reference" / name).write_text(text, encoding="utf-8")
