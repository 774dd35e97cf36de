"""The lines that are shown, with changed ones that no git has to know."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from pytest_opprof.sites.shown import Shown


class Changed(Shown):
    """Shows lines of these tests; *changed* has the changed ones of each file."""

    def __init__(self, changed: Mapping[str, Collection[int]]) -> None:
        super().__init__(Path(__file__).parent)
        self._changed = changed

    def changed(self, file: str) -> Sequence[range]:
        return [range(line, line + 1) for line in self._changed.get(file, ())]
