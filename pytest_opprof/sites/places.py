"""Lines of code that call ops, named by their text: a number would change with every line above them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple


class Place(NamedTuple):
    """A line of code."""

    file: str
    """Relative to pytest's root directory, with ``/``."""
    function: str
    """Its qualified name: ``Block.forward``."""
    text: str
    """The text of the line, without its indent."""


# The most frames of a chain that are kept and compared: recursive code has chains as long as Python's stack.
MOST_FRAMES = 30
# The line that called an op, the line that called its function, and so on outwards.
Chain = tuple[Place, ...]


class Site(NamedTuple):
    """The source of ops: a chain of calls; for backward ops, that of their forward op."""

    chain: Chain
    is_backward: bool = False


# The amounts by which lines are compared.
Amount = Literal["calls", "flops", "bytes"]


class Calls(NamedTuple):
    """Calls in one round: the fewest and the most of all rounds. Their work, if known."""

    fewest: int
    most: int
    bytes: int | None = None
    """Read and written in the round with the most calls."""
    flops: int | None = None

    def __str__(self) -> str:
        return f"{self.most}" if self.fewest == self.most else f"{self.fewest}..{self.most}"

    @classmethod
    def total(cls, every: Iterable[Calls]) -> Calls:
        """Return the sum of several sites' calls; their work is known only if that of each is."""
        found = [*every]
        nbytes, flops = (
            sum(each or 0 for each in column) if column and None not in column else None
            for column in ([each.bytes for each in found], [each.flops for each in found])
        )
        return cls(sum(each.fewest for each in found), sum(each.most for each in found), nbytes, flops)

    def of(self, amount: Amount) -> Calls | None:
        """Return FLOPs or bytes in place of the calls; None if unknown."""
        number = self.flops if amount == "flops" else self.bytes
        return self if amount == "calls" else None if number is None else Calls(number, number)


# The calls of one op in one window, by source line.
OpSites = Mapping[Site, Calls]

# The sites of every op of one window.
WindowSites = Mapping[str, OpSites]


# The methods through which a subclass of Tensor or of ndarray gets each op. All ops of MONAI come from one line in one.
_DISPATCH = frozenset(["__torch_function__", "__torch_dispatch__", "__array_function__", "__array_ufunc__"])


# A line that only returns a call with all the arguments of its function, as a decorator does. One that calls in a loop,
# or computes with the result, does work of its own.
_FORWARDS = re.compile(r"return (?:await )?[\w.]+(?:\(.*\))?\(\*\w+, ?\*\*\w+\)")


def passes_on(function: str, text: str) -> bool:
    """Return True if a line passes every op of a class, or every call of a function, on: the line that calls is the
    cause.
    """
    is_dispatch = function.rpartition(".")[2] in _DISPATCH and ("super(" in text or "func(" in text)
    return is_dispatch or bool(_FORWARDS.fullmatch(text))


def near(sites: OpSites) -> OpSites:
    """Return *sites* with only the innermost frames of their chains, without lines that pass every op on."""
    found: dict[Site, Calls] = {}
    for site, calls in sites.items():
        chain = [each for each in site.chain if not passes_on(each.function, each.text)]
        inner = Site(tuple(chain or site.chain)[:MOST_FRAMES], site.is_backward)
        found[inner] = Calls.total([calls, found[inner]]) if inner in found else calls
    return found
