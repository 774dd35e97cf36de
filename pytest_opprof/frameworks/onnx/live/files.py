"""The files of ONNX Runtime's profiles. Their names contain the time in milliseconds."""

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
        """Return the beginning of a new file's path, and the number in its name."""
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
        """Delete the files, also those of failed copies."""
        for file in os.scandir(folder(os.getpid())) if self._are_some else ():
            os.unlink(file)


@cache
def folder(process: int) -> str:
    """Return the folder for the profiles of a process. It is deleted with the process, since deleting it takes 5 ms."""
    return str(lasting("onnxruntime-"))
