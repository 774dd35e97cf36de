"""Lines of code that ask for ops, named by what they say: a number would change with every line above them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple


class Place(NamedTuple):
    """A line of code."""

    file: str
    """Relative to pytest's root directory, with ``/``."""
    function: str
    """Its qualified name: ``Block.forward``."""
    text: str
    """What the line says, without its indent."""


MOST_FRAMES = 30
"""How many frames of a chain are kept and compared: code that calls itself has chains as long as Python's stack."""
Chain = tuple[Place, ...]
"""The line that asked for an op, the line that called its function, and so on outwards."""


class Site(NamedTuple):
    """Where ops come from: a chain of calls; of backward ops, that of the forward op that they belong to."""

    chain: Chain
    is_backward: bool = False


Amount = Literal["calls", "flops", "bytes"]
"""By what lines are compared."""


class Calls(NamedTuple):
    """Calls in one round: the fewest and the most of all rounds. What they work on, where it is known."""

    fewest: int
    most: int
    bytes: int | None = None
    """Read and written in the round with the most calls."""
    flops: int | None = None

    def __str__(self) -> str:
        return f"{self.most}" if self.fewest == self.most else f"{self.fewest}..{self.most}"

    @classmethod
    def total(cls, every: Iterable[Calls]) -> Calls:
        """Return the calls of several sites together; their work is known where that of each is."""
        found = [*every]
        nbytes, flops = (
            sum(each or 0 for each in column) if column and None not in column else None
            for column in ([each.bytes for each in found], [each.flops for each in found])
        )
        return cls(sum(each.fewest for each in found), sum(each.most for each in found), nbytes, flops)

    def of(self, amount: Amount) -> Calls | None:
        """Return FLOPs or bytes in place of the calls; None where they are not known."""
        number = self.flops if amount == "flops" else self.bytes
        return self if amount == "calls" else None if number is None else Calls(number, number)


OpSites = Mapping[Site, Calls]
"""The calls of one op in one window, by where they come from."""

WindowSites = Mapping[str, OpSites]
"""Those of every op of one window."""


def near(sites: OpSites) -> OpSites:
    """Return *sites* with no more than the innermost frames of their chains."""
    found: dict[Site, Calls] = {}
    for site, calls in sites.items():
        inner = Site(site.chain[:MOST_FRAMES], site.is_backward)
        found[inner] = Calls.total([calls, found[inner]]) if inner in found else calls
    return found
