"""Lines of code that ask for ops, named by what they say: a number would change with every line above them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


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


class Calls(NamedTuple):
    """Calls in one round: the fewest and the most of all rounds."""

    fewest: int
    most: int

    def __str__(self) -> str:
        return f"{self.most}" if self.fewest == self.most else f"{self.fewest}..{self.most}"

    @classmethod
    def total(cls, every: Iterable[Calls]) -> Calls:
        """Return the calls of several sites together."""
        fewest, most = 0, 0
        for each in every:
            fewest, most = fewest + each.fewest, most + each.most
        return cls(fewest, most)


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
