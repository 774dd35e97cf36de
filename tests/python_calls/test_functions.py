"""Names and versions of Python functions."""

from __future__ import annotations

import sys

import pytest

from pytest_opprof.python_calls import functions


def test_no_version_is_known_where_a_finder_of_the_program_cannot_list_packages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Finder:
        def find_spec(self, *_: object) -> None: ...

        def find_distributions(self, context: object) -> None:
            raise AttributeError("no such context")

    functions._distributions.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
        assert [*functions.versions(["pytest.fail"], lambda _: False)] == ["python"]
    functions._distributions.cache_clear()
    assert [*functions.versions(["pytest.fail"], lambda _: False)] == ["pytest", "python"]
