"""The counted calls: by function, with the calling lines; and the versions that affect the numbers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, structs

from ..profile.site_calls import SourceLine

Count = Annotated[int, Meta(extra_json_schema={"minimum": 0})]


class CallingLine(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The calls of a function caused by one line of the project."""

    line: SourceLine
    function: Annotated[str, Meta(description="The function that was called: module and qualified name.")]
    calls: Count
    caller: Annotated[str, Meta(description="The function that the line is in: module and qualified name.")] = ""
    direct: Annotated[bool, Meta(description="Whether the line itself calls it, or a package that the line calls.")] = (
        True
    )


class PythonCalls(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The Python calls of a window's code, warm: in a round of its own, without any other measurement."""

    functions: Annotated[
        dict[str, Count], Meta(description="By function, Python's and builtin ones: module and qualified name.")
    ] = {}
    loops: Annotated[
        dict[str, Count] | None,
        Meta(description="By function, how often its loops went back to their start; null before Python 3.12."),
    ] = None
    collections: Annotated[Count, Meta(description="Full garbage collections that the code asked for.")] = 0
    versions: Annotated[
        dict[str, str], Meta(description="Of Python, and of the packages whose functions were called.")
    ] = {}
    own: Annotated[tuple[str, ...], Meta(description="Which of the functions are the project's.")] = ()
    lines: Annotated[
        tuple[CallingLine, ...], Meta(description="The lines that call; none where nobody looked for them.")
    ] = ()
    looked_up: Annotated[
        Count, Meta(description="If lines are estimated from some of the calls: from how many; 0 if from all.")
    ] = 0
    cold: Annotated[
        bool, Meta(description="Counted in the first run of a fresh process, since the code cannot run twice.")
    ] = False
    uncounted: Annotated[str, Meta(description="Why nothing was counted; empty where it was.")] = ""
    fails_again: Annotated[
        bool, Meta(description="Whether nothing was counted because the body failed when it ran once more.")
    ] = False

    @property
    def total(self) -> int:
        """The calls of all functions."""
        return sum(self.functions.values())

    @property
    def iterations(self) -> int | None:
        """The loop iterations of all functions; None if Python does not tell."""
        return None if self.loops is None else sum(self.loops.values())

    def with_lines(self, found: PythonCalls) -> PythonCalls:
        """Return the calls with the lines that another run *found*."""
        return structs.replace(self, lines=found.lines, looked_up=found.looked_up)

    def facts(self, rounds: int) -> dict[str, tuple[int, ...]]:
        """Return the amounts of the window as a whole, the same for each of its *rounds*; none if uncounted."""
        known = {"python_calls": self.total, "loop_iterations": self.iterations, "collections": self.collections}
        known = {} if self.uncounted else known
        return {name: (number,) * rounds for name, number in known.items() if number is not None}
