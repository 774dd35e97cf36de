"""Explain why torch.compile compiled a frame again, by the failed guards that it keeps."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from types import CodeType
from typing import Any

# The number of failed guards so far, by the code of the frame.
Failed = Mapping[CodeType, int]
_ENTRY = re.compile(r"(?:\d+/\d+: )?([^#\n]*)")


def failed() -> Failed:
    """Return the failed guards so far; none if torch.compile is not used."""
    return {code: len(reasons) for code, reasons in _failures().items()}


def reasons(before: Failed) -> Iterator[str]:
    """Yield the reasons for recompilations since *before*, in words."""
    for code, every in _failures().items():
        # Each guard kept for the frame failed; the first is telling enough.
        for entry in every[before.get(code, 0) :][:1]:
            found = _ENTRY.match(str(entry))
            why = found[1].strip() if found else ""
            yield f"torch.compile compiled {code.co_name} ({code.co_filename}:{code.co_firstlineno}) again: {why}"


def _failures() -> dict[CodeType, list[Any]]:
    found = getattr(sys.modules.get("torch._dynamo.utils"), "guard_failures", None)
    return dict(found) if isinstance(found, dict) else {}
