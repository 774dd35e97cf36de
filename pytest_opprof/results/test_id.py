"""Identify a test: by the module whose baselines hold it, and by its own name.

The id is pytest's node id, except for tests outside the root directory (``--pyargs``, ``--rootdir``): there pytest may
give two modules the same name, or none.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def id_of(item: pytest.Item) -> str:
    """Return the id of *item*: ``tests/test_a.py::test_b``; outside the root directory ``package.test_a::test_b``."""
    if _is_below(item.path, item.config.rootpath):
        return item.nodeid
    module = getattr(getattr(item, "module", None), "__name__", item.path.stem)
    return f"{module}::{item.nodeid.partition('::')[2]}"


@lru_cache(maxsize=1024)
def _is_below(path: Path, root: Path) -> bool:
    return path.is_relative_to(root)


def split_id(test: str) -> tuple[str, str]:
    """Split a test id into its module and its name there.

    >>> split_id("tests/test_a.py::TestB::test_c[a::b]")
    ('tests/test_a.py', 'TestB::test_c[a::b]')
    """
    module, _, name = test.partition("::")
    return module, name


def function_of(test: str) -> str:
    """Return a test id without its parameters.

    >>> function_of("tests/test_a[1].py::TestB::test_c[a::b]"), function_of("tests/test_a[1].py")
    ('tests/test_a[1].py::TestB::test_c', 'tests/test_a[1].py')
    """
    module, separator, name = test.partition("::")
    return module + separator + name.partition("[")[0]


def is_file(module: str) -> bool:
    """Return True if a module is named by its file below the root directory, not by its dotted name.

    >>> is_file("test_a.py"), is_file("docs/a.md"), is_file("package.tests.test_a")
    (True, True, False)
    """
    return "/" in module or module.endswith(".py")


def command(tests: Sequence[str], flags: str, pytest: str = "pytest") -> str:
    """Return the command that runs *tests*, or all, with *flags*; *pytest* starts pytest on all ranks.

    >>> command(["test_a.py::test_b[x y]"], "--opprof"), command(["package.test_a::test_b"], "--opprof")
    ("pytest 'test_a.py::test_b[x y]' --opprof", 'pytest --pyargs package.test_a::test_b --opprof')
    """
    elsewhere = [] if all(is_file(split_id(test)[0]) for test in tests) else ["--pyargs"]
    return " ".join([pytest, *elsewhere, *map(shlex.quote, tests), flags])
