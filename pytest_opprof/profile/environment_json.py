"""An environment in the JSON of profiles, runs and baselines."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from .environment import Environment


class EnvironmentJson(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The facts that decide whether two measurements may be compared."""

    arch: str
    device: Annotated[str, Meta(description="cpu, or the model of the accelerator.")]
    frameworks: Annotated[dict[str, str], Meta(description="The version of each framework that recorded.")]
    timing: Annotated[str, Meta(extra_json_schema={"enum": ["", "async", "sync"]})]
    ranks: Annotated[int, Meta(ge=1, description="How many processes ran the program together; absent for one.")] = 1

    @classmethod
    def of(cls, environment: Environment) -> EnvironmentJson:
        """Return *environment* for JSON."""
        # str: a framework's version may be of a class of its own, such as torch.__version__, which JSON does not know.
        frameworks = {str(name): str(version) for name, version in environment.frameworks}
        return cls(
            str(environment.arch), str(environment.device), frameworks, str(environment.timing), environment.ranks
        )

    @property
    def environment(self) -> Environment:
        """The environment of this JSON."""
        return Environment(tuple(sorted(self.frameworks.items())), self.device, self.arch, self.timing, self.ranks)
