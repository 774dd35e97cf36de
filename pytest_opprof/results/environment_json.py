"""An environment as the JSON of runs and of baselines has it."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ..profile.environment import Environment


class EnvironmentResult(Struct, frozen=True, forbid_unknown_fields=True):
    """What decides whether two measurements may be compared."""

    arch: str
    device: Annotated[str, Meta(min_length=1, description="cpu, or the model of the accelerator.")]
    frameworks: Annotated[dict[str, str], Meta(description="The version of each framework that recorded.")]
    timing: Literal["", "async", "sync"]

    @classmethod
    def of(cls, environment: Environment) -> EnvironmentResult:
        """Return *environment* as JSON has it."""
        frameworks, timing = dict(environment.frameworks), environment.timing
        return cls(environment.arch, environment.device, frameworks, timing)  # type: ignore[arg-type]

    @property
    def environment(self) -> Environment:
        """What it stands for."""
        return Environment(tuple(sorted(self.frameworks.items())), self.device, self.arch, self.timing)
