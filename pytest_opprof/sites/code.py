"""The owner of a file: lines of the user and of packages can be sites; lines of frameworks and tools cannot.

An op that a framework runs belongs to the line that called the framework.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from types import CodeType

# Packages whose lines are no sites, unless they are under test: their ops are the counted ones.
FRAMEWORKS = frozenset(
    "cupy cupy_backends cupyx functorch jax jax_cuda12_pjrt jax_cuda12_plugin jax_cuda13_pjrt jax_cuda13_plugin jaxlib"
    " llvmlite megengine mindspore ml_dtypes numba numpy onnxruntime tensorflow torch torch_npu torchgen triton".split()
)
# Packages that run no ops, but 200,000 lines at torch.compile's first use of them: a tracer would give up. Only as
# installed packages: a checkout of one is somebody's work.
THEIR_TOOLS = frozenset(
    "_distutils_hack filelock fsspec jinja2 markupsafe mpmath networkx packaging pkg_resources setuptools sympy"
    " typing_extensions".split()
)
# Packages that call tests. So do all in site-packages whose names begin with ``pytest_``.
TEST_TOOLS = frozenset(
    "_hypothesis_pytestplugin _pytest coverage execnet flaky hypothesis pluggy py pytest xdist".split()
)
# Matches the folder of installed packages, of whatever environment.
_PACKAGES = re.compile(r".*[\\/](?:site|dist)-packages[\\/]", re.DOTALL)
# The folder of this package.
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Kind(Enum):
    """The kind of a file's lines."""

    TRACED = "sites: the user's, or a package's"
    HIDDEN = "a framework's, the standard library's or ours: the line that called them is the site"
    TEST_TOOL = "hidden, too; where a chain of calls begins"


class Kinds(dict[str, Kind]):
    """The kind of each file, by `CodeType.co_filename`; found at its first use."""

    def __init__(self) -> None:
        self._root: frozenset[str] = frozenset()
        self._shown: frozenset[str] = frozenset()

    @contextmanager
    def of_run(self, root: str | os.PathLike[str], shown: Iterable[str] = ()) -> Iterator[None]:
        """Treat code below *root*, and packages with the names *shown*, as code under test meanwhile."""
        before = self._root, self._shown, dict(self)
        self.clear()
        self._root, self._shown = frozenset([os.path.abspath(root), os.path.realpath(root)]), frozenset(shown)
        try:
            yield
        finally:
            self._root, self._shown, known = before
            self.clear()
            self.update(known)

    def hides(self, package: str) -> bool:
        """Return True if lines of an installed *package* are hidden, by its name."""
        return package in FRAMEWORKS | THEIR_TOOLS and package not in self._shown

    def __missing__(self, file: str) -> Kind:
        found = self[file] = self._kind(file)
        return found

    def _kind(self, file: str) -> Kind:
        if file.startswith("<"):
            # The line that runs eval, exec or a generated dataclass is the site. Examples in a docstring have lines.
            return Kind.TRACED if file.startswith("<doctest ") else Kind.HIDDEN
        path = os.path.abspath(file)
        if _is_below(path, [HERE]):
            return Kind.HIDDEN
        if installed := in_package(path):
            name = first_part(installed)
            if is_test_tool(name):
                return Kind.TEST_TOOL
            return Kind.HIDDEN if self.hides(name) else Kind.TRACED
        if _is_below(path, _folders(TEST_TOOLS)):
            return Kind.TEST_TOOL
        generated = os.environ.get("TORCHINDUCTOR_CACHE_DIR", os.devnull)  # set by torch.compile before it writes code
        if _is_below(path, [generated, *_STANDARD_LIBRARY]):
            return Kind.HIDDEN
        framework = next((each for each in _folders(FRAMEWORKS - self._shown) if _is_below(path, [each])), "")
        is_tested = _is_below(path, self._root) and not _is_installed(framework)
        return Kind.HIDDEN if framework and not is_tested else Kind.TRACED


# By file, not by code object: functions of two files that read the same are equal, and hashing one takes longer.
kinds = Kinds()


def is_traced(code: CodeType) -> bool:
    """Return True if lines of *code* can be sites."""
    return kinds[code.co_filename] is Kind.TRACED


def is_import(code: CodeType) -> bool:
    """Return True if *code* is the body of an installed module.

    To import one may run 400,000 lines (peft, which imports transformers): the import statement stands for them.
    """
    return code.co_name == "<module>" and bool(in_package(code.co_filename))


def in_package(file: str) -> str:
    """Return the path of an installed *file* below its site-packages (``einops/_backends.py``), else ""."""
    found = _PACKAGES.match(file)
    return file[found.end() :] if found else ""


def relative(file: str) -> str:
    """Return a file for people: as it is in its package, or relative if it is below the current folder."""
    return in_package(file) or (os.path.relpath(file) if file.startswith(os.getcwd() + os.sep) else file)


def place(code: CodeType) -> str:
    """Return the first line of a function: ``engine.py:9``."""
    return f"{relative(code.co_filename)}:{code.co_firstlineno}"


def first_part(path: str) -> str:
    """Return the name of the package or module that *path* begins with."""
    return re.split(r"[\\/.]", path, maxsplit=1)[0]


def is_test_tool(package: str) -> bool:
    """Return True if a package calls tests, by its name."""
    return package in TEST_TOOLS or package.startswith("pytest_")


def _is_installed(package: str) -> bool:
    """Return True if an installer put a package outside of site-packages there (pip's ``--target``)."""
    folder, name = os.path.split(package)
    try:
        beside = os.listdir(folder)
    except OSError:
        return False
    return any(each.endswith(".dist-info") and each.lower().startswith(f"{name.lower()}-") for each in beside)


def _folders(packages: Iterable[str]) -> list[str]:
    """Return the folders of the imported *packages*: a checkout, an archive, pip's ``--target``."""
    modules = [getattr(sys.modules.get(name), "__dict__", {}) for name in packages]
    files = [(module.get("__file__") or "", "__path__" in module) for module in modules]
    folders = [os.path.dirname(file) if is_package else file for file, is_package in files]
    return [*filter(None, folders), *(folder for module in modules for folder in module.get("__path__", ()))]


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)


_STANDARD_LIBRARY = {sysconfig.get_path("stdlib"), os.path.dirname(os.__file__)}
_STANDARD_LIBRARY |= {os.path.realpath(folder) for folder in _STANDARD_LIBRARY}
