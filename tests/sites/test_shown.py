from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_opprof.errors import UsageError
from pytest_opprof.sites.chains import Frame
from pytest_opprof.sites.changed import Changes
from pytest_opprof.sites.shown import Shown, Site

from ..git_history import committed

PACKAGES = "/usr/lib/python3/dist-packages"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with a package, a test, a virtual environment; beside it the checkout of another package."""
    files = {
        "project/src/mylib/__init__.py": "",
        "project/src/mylib/dtypes.py": "def as_float(x):\n    return x.float()\n",
        "project/src/mylib/model.py": "def forward(x):\n\n    y = as_float(x)  # wide\n    return y\n",
        "project/tests/test_model.py": "def test_it():\n    forward(1)\n",
        "project/.venv/lib/python3.11/site-packages/einops/_backends.py": "\n\nx.permute(axes)\n",
        "other/otherlib/__init__.py": "",
        "other/otherlib/nn/__init__.py": "",
        "other/otherlib/nn/blocks.py": "block(x)\n",
        "other/script.py": "run()\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "project"


@pytest.fixture
def frames(root: Path) -> dict[str, Frame]:
    return {
        "helper": Frame(str(root / "src/mylib/dtypes.py"), "as_float", 2),
        "model": Frame(str(root / "src/mylib/model.py"), "Model.forward", 3),
        "test": Frame(str(root / "tests/test_model.py"), "test_it", 2),
        "einops": Frame(str(root / ".venv/lib/python3.11/site-packages/einops/_backends.py"), "Torch.transpose", 3),
        "other": Frame(str(root.parent / "other/otherlib/nn/blocks.py"), "Block.forward", 1),
        "script": Frame(str(root.parent / "other/script.py"), "<module>", 1),
        "installed": Frame(f"{PACKAGES}/transformers/models/bert.py", "Bert.forward", 10),
    }


def chain(frames: dict[str, Frame], names: str) -> list[Frame]:
    return [frames[name] for name in names.split()]


@pytest.mark.processes
def test_lines_of_the_program_that_differ_from_the_base_changed_but_none_of_the_test(root: Path) -> None:
    model, test = root / "src/mylib/model.py", root / "tests/test_model.py"
    shown = Shown(root)
    assert not shown.is_changed(str(model), 3)  # nothing is known
    committed(root)
    model.write_text(model.read_text().replace("y = ", "y = 2 * "))
    test.write_text(test.read_text().replace("(1)", "(2)"))
    shown.changes = Changes(root, "it", "HEAD")
    assert [shown.is_changed(str(model), line) for line in (1, 2, 3, 4)] == [False, False, True, False]
    assert shown.is_changed(str(test), 2)
    shown.test = str(test)
    assert not shown.is_changed(str(test), 2)


def test_the_innermost_line_of_the_project_is_shown_with_those_that_called_it(
    root: Path, frames: dict[str, Frame]
) -> None:
    site = Shown(root).site(chain(frames, "helper model test"))
    assert site == Site(
        "src/mylib/dtypes.py",
        2,
        "as_float",
        "return x.float()",
        callers=(
            Site("src/mylib/model.py", 3, "Model.forward", "y = as_float(x)  # wide"),
            Site("tests/test_model.py", 2, "test_it", "forward(1)"),
        ),
    )
    assert str(site) == "src/mylib/dtypes.py:2 in as_float"


def test_it_says_via_which_package_the_op_was_called(root: Path, frames: dict[str, Frame]) -> None:
    site = Shown(root).site(chain(frames, "einops installed model other installed test"))
    assert (site.file, site.via) == ("src/mylib/model.py", "einops/_backends.py:3 in Torch.transpose")
    assert [(each.file, each.via) for each in site.callers] == [
        ("tests/test_model.py", "otherlib/nn/blocks.py:1 in Block.forward")
    ]


@pytest.mark.parametrize(
    ("names", "shown", "text"),
    [
        ("einops installed", "einops/_backends.py:3 in Torch.transpose", "x.permute(axes)"),
        ("other installed", "otherlib/nn/blocks.py:1 in Block.forward", "block(x)"),
        ("installed", "transformers/models/bert.py:10 in Bert.forward", ""),
    ],
)
def test_where_no_line_is_of_the_project_the_innermost_is_shown(
    root: Path, frames: dict[str, Frame], names: str, shown: str, text: str
) -> None:
    site = Shown(root).site(chain(frames, names))
    assert (str(site), site.text, site.via, site.callers) == (shown, text, "", ())


def test_a_file_of_no_package_keeps_its_path(root: Path, frames: dict[str, Frame]) -> None:
    assert Shown(root).site([frames["script"]]).file == str(root.parent / "other/script.py")


@pytest.mark.parametrize("hide", ["mylib.dtypes", "mylib/dtypes.py", "src/mylib/dtypes.py", "./src/mylib/dtypes.py"])
def test_a_helper_can_be_hidden(root: Path, frames: dict[str, Frame], hide: str) -> None:
    site = Shown(root, hide=[hide]).site(chain(frames, "helper model helper test"))
    assert (site.file, site.via) == ("src/mylib/model.py", "")
    assert [each.file for each in site.callers] == ["tests/test_model.py"]


@pytest.mark.parametrize("forwards", ["return super().__torch_function__(f, types)", "return func(*args)"])
def test_the_line_that_passes_every_op_of_a_class_on_is_told_as_the_way_of_the_line_that_calls_the_op(
    root: Path, frames: dict[str, Frame], forwards: str
) -> None:
    path = root / "src/mylib/meta.py"
    path.write_text(f"class Meta:\n    x = x.clone()\n    {forwards}\n")
    forwarding = Frame(str(path), "Meta.__torch_function__", 3)
    site = Shown(root).site([forwarding, *chain(frames, "model test")])
    assert (site.file, site.via) == ("src/mylib/model.py", "src/mylib/meta.py:3 in Meta.__torch_function__")
    # An op of the method itself has its own line, and so has one that nothing of the project called.
    own = Shown(root).site([forwarding._replace(line=2), *chain(frames, "model test")])
    assert (own.file, own.line) == ("src/mylib/meta.py", 2)
    assert Shown(root).site([forwarding]).line == 3


@pytest.mark.parametrize(
    "forwards", ["return method(*args, **kwargs)", "return getattr(\n  cls._backend(), name\n)(*a, **kw)"]
)
def test_the_line_of_a_decorator_that_passes_all_arguments_on_is_the_way_of_the_line_that_calls_it(
    root: Path, frames: dict[str, Frame], forwards: str
) -> None:
    path = root / "src/mylib/backend.py"
    path.write_text(f"def wrapped(*a, **kw):\n{forwards}\n    return method(a, **kw)\n")
    site = Shown(root).site([Frame(str(path), "wrapped", 2), *chain(frames, "model test")])
    assert (site.file, site.via) == ("src/mylib/model.py", "src/mylib/backend.py:2 in wrapped")
    last = len(forwards.splitlines()) + 2
    assert Shown(root).site([Frame(str(path), "wrapped", last), *chain(frames, "model test")]).line == last


@pytest.mark.parametrize("works", ["out = f(*a, **kw)", "return 2 * f(*a, **kw)", "return mul(f(*a, **kw), 2)"])
def test_a_line_that_does_more_than_pass_all_arguments_on_is_the_cause(root: Path, works: str) -> None:
    path = root / "src/mylib/retry.py"
    path.write_text(f"{works}\n")
    assert Shown(root).site([Frame(str(path), "retry", 1)]).via == ""
    site = Shown(root).site([Frame(str(path), "retry", 1), Frame(str(root / "src/mylib/model.py"), "f", 1)])
    assert site.file == "src/mylib/retry.py"


def test_a_hidden_package_is_not_named_either(root: Path, frames: dict[str, Frame]) -> None:
    site = Shown(root, hide=["einops"]).site(chain(frames, "einops other model"))
    assert site.via == "otherlib/nn/blocks.py:1 in Block.forward"
    site = Shown(root, hide=["einops"]).site(chain(frames, "einops other"))
    assert site.file == "otherlib/nn/blocks.py"
    site = Shown(root, hide=["einops"]).site(chain(frames, "einops"))
    assert site.file == "einops/_backends.py"  # there is nothing else


@pytest.mark.parametrize(
    "show", ["transformers", "transformers.models", "transformers/models/", "transformers/models/bert.py"]
)
def test_a_package_can_be_shown(root: Path, frames: dict[str, Frame], show: str) -> None:
    site = Shown(root, show=[show]).site(chain(frames, "einops installed test"))
    assert str(site) == "transformers/models/bert.py:10 in Bert.forward"
    assert site.via == "einops/_backends.py:3 in Torch.transpose"
    assert [each.file for each in site.callers] == ["tests/test_model.py"]


@pytest.mark.parametrize("show", ["transform", "models", "bert.py", "mylib"])
def test_whole_names_count(root: Path, frames: dict[str, Frame], show: str) -> None:
    assert Shown(root, show=[show]).site(chain(frames, "installed test")).file == "tests/test_model.py"


def test_what_is_to_be_shown_wins(root: Path, frames: dict[str, Frame]) -> None:
    shown = Shown(root, show=["mylib.dtypes"], hide=["mylib", "tests"])
    site = shown.site(chain(frames, "helper model test"))
    assert (site.file, site.callers) == ("src/mylib/dtypes.py", ())


@pytest.mark.parametrize("show", ["pytest_mock", "_pytest.python", "pytest_opprof"])
def test_a_test_tool_cannot_be_shown(root: Path, show: str) -> None:
    with pytest.raises(UsageError, match=f"'{show}' cannot be shown as a call site: lines of test tools"):
        Shown(root, show=["transformers", show])


def test_a_framework_can_be_shown_for_who_works_on_it(root: Path) -> None:
    frames = [Frame(f"{PACKAGES}/torch/nn/functional.py", "linear", 5), Frame(str(root / "tests/test_a.py"), "test", 1)]
    assert Shown(root, show=["torch.nn"]).site(frames).file == "torch/nn/functional.py"


def test_a_project_may_be_an_installed_package(frames: dict[str, Frame]) -> None:
    shown = Shown(f"{PACKAGES}/transformers")  # pytest --pyargs
    assert shown.site([frames["installed"]]).file == "models/bert.py"


def test_a_project_may_be_reached_by_a_link(root: Path, frames: dict[str, Frame]) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    assert Shown(link).site([frames["test"]]).file == "tests/test_model.py"
    through = frames["test"]._replace(file=str(link / "tests/test_model.py"))
    assert Shown(root).site([through]).file == "tests/test_model.py"


def test_an_example_in_a_docstring_is_the_users(root: Path, frames: dict[str, Frame]) -> None:
    site = Shown(root).site([Frame("<doctest mylib.model[0]>", "<module>", 1), frames["test"]])
    assert (site.file, site.text) == ("<doctest mylib.model[0]>", "")


def test_the_text_is_that_of_now(root: Path, frames: dict[str, Frame]) -> None:
    before = Shown(root).site([frames["helper"]]).text
    Path(frames["helper"].file).write_text("def as_float(x):\n    return x.to(float32)\n")
    os.utime(frames["helper"].file, (1, 1))
    after = Shown(root).site([frames["helper"]]).text
    assert (before, after) == ("return x.float()", "return x.to(float32)")


def test_a_line_that_is_not_known_says_so(root: Path) -> None:
    assert str(Shown(root).site([])) == "a line that is not known"
