"""Redirect calls of NumPy to observers while a window is open, and restore them after it."""

from __future__ import annotations

import ctypes
import os
import sys
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import RLock
from types import ModuleType

import numpy as np

from . import memory, observers, targets
from .machine_code import layout
from .machine_code.machine import Machine, Pointers, Stub
from .recording import Recording
from .targets import Target

_lock = RLock()


@contextmanager
def observed(recording: Recording) -> Iterator[None]:
    """Observe until the context ends; *recording* gets all calls, unless another one begins inside."""
    hook = _hook()
    with _lock:
        observers.begin(recording)
        hook.put_in()
        if recording.wants_memory and hook.counted is not None and hook.counted.is_in_use():
            recording.memory = hook.counted
            hook.counted.put_in()
    try:
        yield
    finally:
        with _lock:
            observers.stop(recording)
            if recording.memory is not None:
                recording.memory.put_back()
            if not observers.recordings:
                hook.put_back()


def late_modules() -> list[str]:
    """Return in words the unseen calls: of modules imported since the window was opened."""
    return _hook().late()


def changed() -> int:
    """Return the number of pointers that lead to observers now."""
    return _hook().changed()


class _Hook:
    """All pointers, and the stubs that they lead to."""

    def __init__(self) -> None:
        layout.check()
        self._machine = Machine(observers.end)
        self.counted: memory.Counted | None = None
        """Counts the bytes of arrays; None if that is impossible."""
        with suppress(LookupError):
            self.counted = memory.Counted(self._machine)
        # NumPy imports these at their first use, possibly in a window.
        for name in ("fft", "linalg", "strings", "char", "polynomial"):
            with suppress(ImportError):
                import_module(f"numpy.{name}")
        self._modules: dict[str, object] = {}
        self._last: tuple[int, object] = (0, None)
        self._late: list[str] = []
        self._kept: list[object] = []
        self._stubs: dict[int, tuple[int, int]] = {}
        """By address of a pointer: its original, and the stub."""
        self._writable = _Writable()
        self._stubs[id(type(len)) + layout.HASH] = self._machine.hash
        self._add(list(targets.of_classes()))
        self._in, self._back = Pointers([]), Pointers([])
        self._classes: list[type] = []
        mapping = layout.pointer(id(np.ndarray) + layout.AS_MAPPING)
        offsets = layout.SUBSCRIPT, layout.ASSIGN_SUBSCRIPT
        self._indexing = [(offset, *self._stubs[mapping + offset]) for offset in offsets]
        """The pointers that subclasses of arrays have copies of: offset, original, and stub."""
        wrappers = [np.ndarray.__dict__[name] for name in ("__getitem__", "__setitem__")]
        self._wrappers = [self._stubs[id(wrapper) + layout.WRAPPED][1] for wrapper in wrappers]
        """The stubs that a class which is made in a window gets instead."""

    def put_in(self) -> None:
        """Redirect all calls to observers."""
        self._look()
        self._late.clear()
        self._machine.write(self._in)
        self._classes = list(_subclasses(np.ndarray))  # kept as long as the window is open, so that none is freed
        self._lead(self._classes, self._indexing)

    def look_again(self) -> None:
        """Redirect calls of new modules to observers, too, while a window is open."""
        with _lock:
            if observers.recordings:
                self._late += [f"the first calls of ufuncs of {name}" for name in self._unseen()]
                self._look()
                self._machine.write(self._in)

    def put_back(self) -> None:
        """Restore all pointers."""
        self._machine.write(self._back)
        # A class of arrays that was made meanwhile has copies of the pointers.
        back = [(offset, stub, old) for offset, old, stub in self._indexing]
        back += [(offset, stub, old) for (offset, old, _), stub in zip(self._indexing, self._wrappers)]
        self._lead([*self._classes, *_subclasses(np.ndarray)], back)
        self._classes.clear()

    def _lead(self, classes: list[type], pointers: list[tuple[int, int, int]]) -> None:
        for kind in classes:
            mapping = layout.pointer(id(kind) + layout.AS_MAPPING)
            for offset, old, new in pointers if mapping else ():
                found = ctypes.c_void_p.from_address(mapping + offset)
                if found.value == old:
                    found.value = new

    def changed(self) -> int:
        """Return the number of pointers that lead to a stub."""
        return sum(layout.pointer(address) == stub for address, (_, stub) in self._stubs.items())

    def late(self) -> list[str]:
        """Return in words the unseen calls: of modules imported since calls are observed."""
        return sorted([*self._late, *(f"ufuncs of {name}" for name in self._unseen())])

    def _unseen(self) -> list[str]:
        """Return the modules with functions that are not redirected yet."""
        if self._last == _last():
            return []
        new = self._new_modules()
        return [
            name
            for name, module in new.items()
            if any(target.address not in self._stubs for target in targets.of_modules({name: module}))
        ]

    def _new_modules(self) -> dict[str, object]:
        """Return the modules that were not examined yet; modules that are being imported have to wait."""
        every = list(sys.modules.items())
        new = {name: each for name, each in every if self._modules.get(name) is not each}
        begun = [name for name, each in new.items() if _is_begun(each)]
        if begun:
            self._last = (0, None)
        return {name: each for name, each in new.items() if name not in begun}

    def _look(self) -> None:
        """Find the pointers of new modules."""
        if self._last == (last := _last()) and len(self._in):
            return
        self._last = last
        modules = self._new_modules()
        self._modules |= modules
        if self._add([*targets.of_modules(modules), *targets.of_compiled()]) or not len(self._in):
            self._in = Pointers((address, old, stub) for address, (old, stub) in self._stubs.items())
            self._back = Pointers((address, stub, old) for address, (old, stub) in self._stubs.items())

    def _add(self, new: list[Target]) -> bool:
        """Make stubs for new targets."""
        fresh: dict[int, Target] = {}
        for target in new:
            address = target.address
            if address in self._stubs or address in fresh or not layout.pointer(address):
                continue
            if address in self._writable:
                fresh[address] = target
        originals = {address: layout.pointer(address) for address in fresh}
        stubs = self._machine.stubs(
            Stub(target.routine, originals[address], target.observer) for address, target in fresh.items()
        )
        for (address, target), stub in zip(fresh.items(), stubs):
            self._kept.append((target.owner, target.observer))
            self._stubs[address] = originals[address], stub
        return bool(fresh)


class _Writable:
    """The writable addresses: a pointer in read-only memory is left alone."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []

    def __contains__(self, address: int) -> bool:
        if not self._is_in(address):
            self._read()
        return self._is_in(address)

    def _is_in(self, address: int) -> bool:
        place = bisect_right(self._begins, address) - 1
        return place >= 0 and address + 8 <= self._ends[place]

    def _read(self) -> None:
        self._begins, self._ends = [], []
        for line in Path("/proc/self/maps").read_text().splitlines():
            span, access = line.split(" ", 2)[:2]
            if "w" in access:
                begin, _, end = span.partition("-")
                self._begins.append(int(begin, 16))
                self._ends.append(int(end, 16))


def _subclasses(kind: type) -> Iterator[type]:
    subclasses: list[type] = type.__subclasses__(kind)
    for each in subclasses:
        yield each
        yield from _subclasses(each)


def _is_begun(module: object) -> bool:
    """Return True if a *module* is being imported."""
    spec = module.__dict__.get("__spec__") if type(module) is ModuleType else None
    return bool(getattr(spec, "_initializing", False))


def _last() -> tuple[int, object]:
    """Return the number of modules, and the last imported one."""
    return len(sys.modules), next(reversed(sys.modules.values()))


@cache
def _hook() -> _Hook:
    hook = _Hook()
    observers.look.append(hook.look_again)
    os.register_at_fork(after_in_child=_after_fork)
    return hook


def _after_fork() -> None:
    """Record nothing in a forked process: its window is its parent's."""
    if observers.recordings:
        while observers.recordings:
            observers.stop(observers.recordings[-1])
        _hook().put_back()
        if (counted := _hook().counted) is not None:
            counted.put_back()
