"""The garbage collector: off where looking for garbage would take much of the time, and when it begins by itself."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import get_ident
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from typing_extensions import Self

# The generation of a full collection, for `gc.callbacks`.
FULL: Final = 2
# By the type, so that a module that loads itself at its first attribute does not.
_NAMESPACE = vars(ModuleType)["__dict__"].__get__


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect no garbage in the context; afterwards the collector is on or off as before."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class DueCollection:
    """The time of the first full collection in a context, if Python began it by itself in this thread.

    It was due for objects of imports and of earlier tests: beside PyTorch it makes 10 ms of a test 300.
    """

    def __init__(self, clocks_ns: Callable[[], Sequence[int]]) -> None:
        self.took_ns = [0] * len(clocks_ns())
        """By each of the clocks."""
        self._clocks_ns = clocks_ns
        self._thread = get_ident()
        self._began_ns: Sequence[int] | None = None
        self._is_over = False

    def __enter__(self) -> Self:
        gc.callbacks.append(self._seen)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ValueError):  # the program cleared them
            gc.callbacks.remove(self._seen)

    def _seen(self, phase: str, info: Mapping[str, Any]) -> None:
        if info["generation"] < FULL or self._is_over:
            return
        if phase == "stop":
            self._is_over = True
            if self._began_ns:
                self.took_ns = [now - began for now, began in zip(self._clocks_ns(), self._began_ns)]
        elif get_ident() == self._thread and _is_due():
            self._began_ns = self._clocks_ns()


def _is_due() -> bool:
    """Return True if Python begins a collection by itself: only if the counter of young objects is over its limit.

    `gc.collect` resets no counter before its callback.
    """
    limit = gc.get_threshold()[0]
    return gc.isenabled() and 0 < limit < gc.get_count()[0]


def referents(*things: object) -> list[Any]:
    """Return the objects to which *things* refer, of a module only its namespace.

    A module in C may refer to freed objects: that of asyncio in Python 3.12 does to its free list, which a reference to
    them makes a ring, and the next collection never ends.
    """
    modules = [each for each in things if issubclass(type(each), ModuleType)]
    others = (each for each in things if not issubclass(type(each), ModuleType)) if modules else things
    return [*gc.get_referents(*others), *map(_NAMESPACE, modules)]


def references(things: Sequence[object]) -> tuple[dict[int, Any], dict[int, list[int]]]:
    """Return *things* by id, and for each the ids of those to which it refers."""
    every = {id(each): each for each in things}
    return every, {at: [id(one) for one in referents(each) if id(one) in every] for at, each in every.items()}


@contextmanager
def frozen_again() -> Iterator[None]:
    """Keep the objects frozen that the program froze, as before a fork, although the context unfreezes them."""
    was_frozen = gc.get_freeze_count() > 0
    try:
        yield
    finally:
        if was_frozen:
            gc.freeze()


@contextmanager
def older_objects_apart() -> Iterator[None]:
    """Keep the existing objects out of the collector's sight, since scanning them beside pandas takes 0.1 s each
    time. Older garbage stays with them.
    """
    with uncollected():
        gc.freeze()
        try:
            yield
        finally:
            gc.unfreeze()  # the holder of a thing is found among all objects
