"""Op-level performance regression testing of numerical and ML code, as a pytest plugin.

Importing the package costs nothing: everything except `op`, which library code may keep, is imported on use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .measure.user_ops import op

if TYPE_CHECKING:
    from .measure.window import Window
    from .profile.op_profile import OpStats
    from .pytest_plugin.fixture import Opprof

__all__ = ["OpStats", "Opprof", "Window", "op"]
__version__ = "0.1.0"

_HOMES = {"OpStats": "profile.op_profile", "Opprof": "pytest_plugin.fixture", "Window": "measure.window"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
