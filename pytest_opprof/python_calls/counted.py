"""The calls that were counted: by function, with the lines that call; and the versions that the numbers are of."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from ..profile.site_calls import SourceLine

Count = Annotated[int, Meta(extra_json_schema={"minimum": 0})]


class CallingLine(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How often one line of the project led to a call of a function."""

    line: SourceLine
    function: Annotated[str, Meta(description="The function that was called: module and qualified name.")]
    calls: Count
    caller: Annotated[str, Meta(description="The function that the line is in: module and qualified name.")] = ""
    direct: Annotated[bool, Meta(description="Whether the line itself calls it, or a package that the line calls.")] = (
        True
    )


class PythonCalls(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one call of a window's code did, warm: in a round of its own, which nothing else measured."""

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
    cold: Annotated[
        bool, Meta(description="Counted in the first run of a fresh process, since the code cannot run twice.")
    ] = False
    uncounted: Annotated[str, Meta(description="Why nothing was counted; empty where it was.")] = ""

    @property
    def total(self) -> int:
        """The calls of all functions."""
        return sum(self.functions.values())

    @property
    def iterations(self) -> int | None:
        """How often loops of all functions went back to their start; None where Python does not tell."""
        return None if self.loops is None else sum(self.loops.values())
