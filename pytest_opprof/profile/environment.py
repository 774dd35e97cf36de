"""The facts that decide whether two measurements may be compared."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Environment:
    """The facts that decide whether two profiles may be compared; none of them changes from run to run."""

    frameworks: tuple[tuple[str, str], ...]
    """(name, version) of each framework that recorded, sorted."""
    device: str = "cpu"
    """``cpu``, or the model of the accelerator."""
    arch: str = platform.machine()
    timing: str = ""
    """``async`` or ``sync`` on an accelerator; empty if an op returns when it is done."""
    ranks: int = 1
    """The number of processes that ran the program together."""

    def __str__(self) -> str:
        frameworks = " + ".join(f"{name} {version}".strip() for name, version in self.frameworks)
        ranks = f"{self.ranks} ranks" if self.ranks > 1 else ""
        return ", ".join(filter(None, [frameworks, self.device, self.timing, ranks]))

    @property
    def full(self) -> str:
        """The environment in words, with all its distinguishing facts."""
        return f"{self} ({self.arch})" if self.arch else str(self)

    @property
    def folder(self) -> str:
        """A folder name that reads as the environment: ``torch-2.13.0-cpu-x86_64``."""
        parts = [part for framework in self.frameworks for part in framework]
        ranks = f"{self.ranks}-ranks" if self.ranks > 1 else ""
        text = "-".join([*parts, self.device, self.timing, self.arch, ranks])
        return re.sub(r"[^a-z0-9._]+", "-", text.lower()).strip("-.")

    def is_like(self, other: Environment) -> bool:
        """Return True if they differ at most in the frameworks that ran ops: same versions, same accelerators."""
        versions = dict(other.frameworks)
        mine, others = (set(each.device.split("+")) - {"cpu"} for each in (self, other))
        return (
            (self.arch, self.ranks, mine) == (other.arch, other.ranks, others)
            and not {self.timing, other.timing} >= {"async", "sync"}
            and all(versions.get(name, version) == version for name, version in self.frameworks)
        )

    def could_be_here(self, now: Environment, *, in_any_version: bool = False) -> bool:
        """Return True if a profile made here might have this environment with other frameworks recording; *now* is
        here.

        They have a device in common, and each framework is installed in this version, or *in_any_version*: a window
        without ops depends on none.
        """
        recorded = dict(now.frameworks)
        return (
            self.arch == now.arch
            and self.ranks == now.ranks
            and not {self.timing, now.timing} >= {"async", "sync"}
            and not set(self.device.split("+")).isdisjoint(now.device.split("+"))
            and (
                in_any_version
                or all(
                    version == (recorded[name] if name in recorded else _installed(name))
                    for name, version in self.frameworks
                )
            )
        )

    @classmethod
    def together(cls, environments: Iterable[Environment]) -> Environment:
        """Return the environment of a profile that several backends recorded at once."""
        every = list(dict.fromkeys(environments))
        return cls(
            tuple(sorted({framework for each in every for framework in each.frameworks})),
            "+".join(sorted({each.device for each in every})),
            "+".join(sorted({each.arch for each in every})),
            "+".join(sorted({each.timing for each in every} - {""})),
            max((each.ranks for each in every), default=1),
        )


@cache
def _installed(framework: str) -> str | None:
    # Imported here: only a test without a baseline needs it.
    from importlib import metadata

    try:
        return metadata.version(framework).partition("+")[0]
    except metadata.PackageNotFoundError:
        return None
