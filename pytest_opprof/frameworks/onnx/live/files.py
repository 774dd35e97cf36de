"""The files that ONNX Runtime writes its profiles to. It adds to their names what time it is, to the millisecond."""

from __future__ import annotations

import os
from functools import cache
from itertools import count

from ....machine.scratch import lasting

_NUMBERS = count()


class Files:
    """The profiles of one window. One window at a time has some."""

    def __init__(self) -> None:
        self._are_some = False

    def new(self) -> tuple[str, str]:
        """Return what the path of a new file begins with, and the number in its name."""
        self._are_some = True
        number = str(next(_NUMBERS))
        return os.path.join(folder(os.getpid()), f"{number}_"), number

    def by_number(self) -> dict[str, list[str]]:
        """Return the paths of the files that were written, by the number in their names."""
        found: dict[str, list[str]] = {}
        for file in os.scandir(folder(os.getpid())):
            found.setdefault(file.name.partition("_")[0], []).append(file.path)
        return found

    def delete(self) -> None:
        """Delete them, also those of copies that could not be made."""
        for file in os.scandir(folder(os.getpid())) if self._are_some else ():
            os.unlink(file)


@cache
def folder(process: int) -> str:
    """Return the folder for the profiles of a process. It is deleted with that, not with a window: that takes 5 ms."""
    return str(lasting("onnxruntime-"))
