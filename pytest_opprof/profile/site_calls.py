"""The source lines of an op with their calls: `SiteCalls`, as they are shown and travel."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from ..sites.places import Calls, Place, Site, WindowSites
from ..sites.shown import Shown
from .op_profile import OpProfile


class SourceLine(Struct, frozen=True, forbid_unknown_fields=True):
    """A line of the program."""

    file: Annotated[str, Meta(description="Relative to the root directory, if it is below it.")]
    line: int
    function: Annotated[str, Meta(description="Empty if unknown.")]
    text: Annotated[str, Meta(description="What the line says; empty where that cannot be read.")]

    @classmethod
    def at(cls, place: str) -> SourceLine:
        """Return a line that is known by its *place* alone: ``engine.py:9``."""
        file, _, line = place.rpartition(":")
        return cls(file, int(line), "", "")

    @property
    def location(self) -> str:
        """``engine.py:9``."""
        return f"{self.file}:{self.line}"

    @property
    def place(self) -> Place:
        """Its identity, which stays the same when lines are added above."""
        return Place(self.file, self.function, self.text)

    def __str__(self) -> str:
        where = self.location + (f" in {self.function}" if self.function else "")
        return where + (f"  `{self.text}`" if self.text else "")


class SiteCalls(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The calls from one line, called by the same lines, in the round with the most calls."""

    calls: int
    lines: Annotated[
        tuple[SourceLine, ...],
        Meta(description="The line, then those that called it; none where it was no line of the program."),
    ] = ()
    via: Annotated[str, Meta(description="The line of a package that the line called, where that asked.")] = ""
    dtypes: str = ""
    is_backward: Annotated[bool, Meta(description="Autograd asked, for what the line computed.")] = False
    bytes: Annotated[
        int | None, Meta(description="Read and written by all calls of the lines, told once; null: not known.")
    ] = None
    flops: Annotated[int | None, Meta(description="As bytes: floating-point operations.")] = None


def kept_sites(by_op: Mapping[str, Sequence[SiteCalls]]) -> WindowSites:
    """Return sites as baselines keep them: lines by their text, whatever the dtypes."""
    found: dict[str, dict[Site, Calls]] = {}
    for op, sites in by_op.items():
        by_site: dict[Site, list[Calls]] = {}
        for each in sites:
            site = Site(tuple(line.place for line in each.lines), each.is_backward)
            by_site.setdefault(site, []).append(Calls(each.calls, each.calls, each.bytes, each.flops))
        found[op] = {site: Calls.total(calls) for site, calls in by_site.items()}
    return found


def site_calls(
    profile: OpProfile,
    name: str,
    shown: Shown,
    aliases: Mapping[str, str] | None = None,
    known: Collection[str] = (),
    counted_only: bool = False,
) -> tuple[SiteCalls, ...]:
    """Return the source lines of *name*, as for `OpProfile.sites`, in the order of the program.

    Calls without a known line are among them, without one: the sum is that of the worst round.
    """
    found = []
    work = dict(profile.work_by_site(name, aliases, known, counted_only))
    for (site, dtypes), calls in profile.sites(name, aliases, known, counted_only).items():
        seen = shown.site(site.frames if site else ())
        lines = [SourceLine(*line[:4]) for line in (seen, *seen.callers) if line.file]
        is_backward = site is not None and site.is_backward
        nbytes, flops = work.get(site, (None, None))
        # FLOPs may belong to a part of the call, which has other dtypes; they belong to the line, and are counted once.
        work[site] = (None if nbytes is None else 0), (None if flops is None else 0)
        found.append(SiteCalls(calls, tuple(lines), seen.via, dtypes, is_backward, nbytes, flops))
    return tuple(found)
