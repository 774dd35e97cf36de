"""Which statements of the working tree's Python files differ from a commit's: not comments, and not layout."""

from __future__ import annotations

import ast
import os
import warnings
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..errors import UsageError
from ..machine.git import changed_files, contents, top_of


class Changes:
    """The changes of the working tree since a commit: its files at once, the statements of a file when asked."""

    def __init__(self, root: Path, purpose: str, commit: str) -> None:
        """*root* is the folder that names of files are relative to. Raises UsageError, naming the *purpose*."""
        self._root = root.resolve()
        self._purpose = purpose
        self._commit = commit
        self._top = top_of(root, purpose)
        self._files = {
            self.name_of(file): file
            for file in changed_files(self._top, purpose, commit)
            if file.suffix == ".py" and not file.is_symlink()
        }
        self._statements: dict[str, Sequence[range]] = {}
        self._by_path: dict[str, Sequence[range]] = {}

    def lines(self, path: str) -> Sequence[range]:
        """Return the changed lines of the file at *path*."""
        if path not in self._by_path:
            name = self.name_of(Path(path))
            self._by_path[path] = self.of([name]).get(name, ())
        return self._by_path[path]

    def name_of(self, file: Path) -> str:
        """Return the name of a file in source lines."""
        return os.path.relpath(file.resolve(), self._root).replace(os.sep, "/")

    def of(self, files: Collection[str]) -> Mapping[str, Sequence[range]]:
        """Return the changed lines of each of the *files* that changed, as `changed_statements` does."""
        return {file: self._of(file) for file in files if file in self._files}

    def _of(self, file: str) -> Sequence[range]:
        if file not in self._statements:
            path = self._files[file]
            before = b""
            with suppress(UsageError):  # the commit lacks the file
                [before] = contents(
                    self._top, self._purpose, [f"{self._commit}:{path.relative_to(self._top).as_posix()}"]
                )
            self._statements[file] = changed_statements(before, path.read_bytes() if path.is_file() else b"")
        return self._statements[file]


class _Statement(NamedTuple):
    """A statement without the statements in it."""

    scope: str
    """The functions and classes that it is in."""
    code: str
    lines: range
    begins: int
    """Its first line, below decorators."""
    parts: Sequence[object]
    """Of its syntax tree, without the statements in it."""

    @property
    def key(self) -> tuple[str, str]:
        """Its identity in both versions."""
        return self.scope, self.code


def changed_statements(before: bytes, now: bytes) -> list[range]:
    """Return the lines of the statements *now* that the source *before* lacks; of one with a body its header.

    Of a changed statement of several lines they are the ones at which a changed expression begins. Where a function
    only lost statements it is the one after them, which now runs in their place. Nothing is known of source that cannot
    be parsed.
    """
    try:
        old, new = ([*_statements(_parsed(source))] for source in (before, now))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    left = Counter(each.key for each in old)
    found: list[_Statement] = []
    places: dict[tuple[str, str], _Statement] = {}
    for each in new:
        places.setdefault(each.key, each)
        if left[each.key]:
            left[each.key] -= 1
        else:
            found.append(each)
    gained = {each.scope for each in found}
    lost = set[str]()
    gone = defaultdict[str, Counter[int]](Counter)
    after: list[range] = []
    for each in old:
        if left[each.key]:
            left[each.key] -= 1
            lost.add(each.scope)
            gone[each.scope].update(key for _, key in _expressions(each.parts))
        elif each.scope in lost - gained:
            lost.discard(each.scope)
            after.append(places[each.key].lines)
    return [lines for each in found for lines in _new_lines(each, gone[each.scope])] + after


def _new_lines(statement: _Statement, known: Counter[int]) -> Iterator[range]:
    """Yield the lines of a statement at which an expression begins that is not *known*, and its first lines."""
    if not known or len(statement.lines) < 2:
        yield statement.lines
        return
    lines, seen = {statement.lines.start, statement.begins}, Counter[int]()
    for node, key in _expressions(statement.parts):
        seen[key] += 1
        at, is_call = getattr(node, "lineno", None), isinstance(node, ast.Call)
        if not at or not (seen[key] > known[key] if is_call else key not in known):  # a second call is new
            continue
        if isinstance(node, _DECIDE):  # parts that are as before may run now, or more often
            lines.update(range(at, (node.end_lineno or at) + 1))
        else:  # a call of a method counts for the line with the method's name
            lines |= {at, getattr(getattr(node, "func", None), "end_lineno", at)}
    yield from (range(line, line + 1) for line in sorted(lines))


# Expressions that decide which of their parts run, or how often.
_DECIDE = (ast.BoolOp, ast.IfExp, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _expressions(parts: Iterable[object]) -> Iterator[tuple[ast.AST, int]]:
    """Yield each part of a statement's tree with a number that equal ones have, whatever their lines; inner ones first.

    `ast.dump` of each would take the square of the size: 2.5 s for a sum of 900 terms.
    """
    every = [*_nodes(parts)]
    keys: dict[int, int] = {}

    def key_of(value: object) -> object:
        return keys[id(value)] if isinstance(value, ast.AST) else repr(value)

    for node in reversed(every):  # `ast.walk` has the outer ones first
        fields = (value for _, value in ast.iter_fields(node))
        said = [tuple(map(key_of, each)) if isinstance(each, list) else key_of(each) for each in fields]
        keys[id(node)] = hash((type(node).__name__, *said))
    return ((node, keys[id(node)]) for node in reversed(every))


def _nodes(parts: Iterable[object]) -> Iterator[ast.AST]:
    return (node for part in parts if isinstance(part, ast.AST) for node in ast.walk(part))


def _parsed(source: bytes) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # importing the user's code says them
        return ast.parse(source)


_BODIES = frozenset(["body", "orelse", "finalbody", "handlers", "cases"])


def _statements(tree: ast.Module) -> Iterator[_Statement]:
    """Yield all statements, `except` and `case` among them, in the order of the source."""
    left: list[tuple[str, ast.AST]] = [("", each) for each in reversed(tree.body)]
    while left:
        scope, node = left.pop()
        header = [value for name, value in ast.iter_fields(node) if name not in _BODIES]
        parts = [each for value in header for each in (value if isinstance(value, list) else [value])]
        code = " ".join(ast.dump(each) if isinstance(each, ast.AST) else repr(each) for each in parts)
        lines = _lines(node, parts)
        begins = getattr(node, "lineno", lines.start)
        yield _Statement(scope, f"{type(node).__name__} {code}", lines, begins, parts)
        is_scope = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        inside = f"{scope}.{node.name}" if is_scope else scope  # type: ignore[attr-defined]
        for name in ("cases", "finalbody", "orelse", "handlers", "body"):
            left += [(inside, each) for each in reversed(getattr(node, name, None) or [])]


def _lines(node: ast.AST, parts: Iterable[object]) -> range:
    """Return the lines of a statement, decorators included, up to the end of these *parts* of it."""
    inside = [*_nodes(parts)]
    begins = [at for each in (node, *inside) if (at := getattr(each, "lineno", None))]
    ends = [at for each in inside if (at := getattr(each, "end_lineno", None))]
    return range(min(begins), max([*begins, *ends]) + 1) if begins else range(0)
