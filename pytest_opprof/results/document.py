"""Read and write JSON that people edit and review: bounded in size, with errors that name the problem; one key a line,
so that a changed number is a changed line.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import BaselineError

# Larger files are refused: 64 MiB is some 10,000 tests.
MAX_BYTES = 64 * 2**20
# The keys of a window beside its ops.
_ON_ONE_LINE = ("facts", "python")
_CONFLICT = re.compile(r"^(?:<{7} |={7}\r?$|>{7} |\|{7} )", re.MULTILINE)


def read_document(path: Path, what: str) -> dict[str, Any]:
    """Return the JSON object in *path*; *what* names it in errors. Raises BaselineError."""
    try:
        # Opening a pipe must not wait for a writer, and endless files must not be read.
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise BaselineError(f"{path}: is no regular file, so it is no {what}. Delete it")
            # Files of the kernel report a size of 0, but have content.
            content = b"" if found.st_size > MAX_BYTES else file.read(MAX_BYTES + 1)
        if max(found.st_size, len(content)) > MAX_BYTES:
            raise BaselineError(f"{path}: larger than {MAX_BYTES >> 20} MiB; this is no {what}")
        text = str(content, "utf-8")
    except OSError as error:
        raise BaselineError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BaselineError(f"{path}: is not UTF-8 text (byte {error.start}). Restore the file") from error
    if conflict := _CONFLICT.search(text):
        line = text.count("\n", 0, conflict.start()) + 1
        raise BaselineError(
            f"{path}:{line}: has git merge conflict markers. Resolve them (take either side, then run"
            " pytest --opprof-update for the tests of this module)"
        )
    try:
        document = json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        where = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        reason = error.msg.removesuffix(" at") if isinstance(error, json.JSONDecodeError) else str(error)
        raise BaselineError(f"{path}{where}: is not JSON: {reason}. Restore the file") from error
    if not isinstance(document, dict):
        raise BaselineError(f"{path}: is no {what}: it holds a {type(document).__name__}, not an object")
    return document


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} occurs twice")
    return document


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no number")


def laid_out(value: object, indent: str = "", key: str = "") -> str:
    """Return JSON with sorted keys and one key a line; an op, and an object of numbers, is on the line of its key."""
    if not isinstance(value, Mapping) or not value or key in _ON_ONE_LINE or (indent and _is_of_numbers(value)):
        return json.dumps(value, sort_keys=True) + ("" if indent else "\n")
    inside = indent + " "
    lines = [
        f"{inside}{json.dumps(name)}: {_op_line(each) if key == 'ops' else laid_out(each, inside, name)}"
        for name, each in sorted(value.items())
    ]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}" + ("" if indent else "\n")


def _is_of_numbers(value: Mapping[str, object]) -> bool:
    numbers = [number for each in value.values() for number in (each if isinstance(each, list) else [each])]
    return all(number is None or isinstance(number, (int, float)) for number in numbers)


def _op_line(op: object) -> str:
    """Return an op on one line: its calls first, its dtypes sorted."""
    if not isinstance(op, dict):
        return json.dumps(op)
    inside = {key: dict(sorted(each.items())) if isinstance(each, dict) else each for key, each in op.items()}
    return json.dumps(inside)
