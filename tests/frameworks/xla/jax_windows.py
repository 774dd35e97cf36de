"""Windows of JAX that were recorded with several versions (tests/frameworks/xla/live/record_jax.py)."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pytest_opprof.frameworks.xla.hlo_module import HloModule

FOLDER = Path(__file__).parents[2] / "data" / "jax-cpu" / "windows"
VERSIONS = sorted(path.name.removeprefix("jax-").removesuffix(".json.gz") for path in FOLDER.glob("*.json.gz"))


@dataclass(frozen=True)
class Recorded:
    """What was recorded of one window."""

    xspace: bytes
    programs: dict[str, bytes]
    """The programs of its steps, by the name of the step."""
    steps: dict[str, dict[str, int]]
    """The opcodes that each step ran, by the text of its program."""
    marks: int
    calls: int
    """Of a fence."""
    executions: int

    def module(self, name: str) -> HloModule:
        return HloModule(self.programs[name])


@cache
def recorded(version: str) -> Recorded:
    document = json.loads(gzip.decompress((FOLDER / f"jax-{version}.json.gz").read_bytes()))
    return Recorded(
        base64.b64decode(document["xspace"]),
        {name: base64.b64decode(each) for name, each in document["programs"].items()},
        document["steps"],
        document["marks"],
        **document["fence"],
    )
