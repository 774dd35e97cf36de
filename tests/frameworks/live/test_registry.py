from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import EntryPoint
from typing import ClassVar

import pytest

from pytest_opprof.backends import Backend, Options, fake
from pytest_opprof.cli import main
from pytest_opprof.errors import BackendError, UsageError
from pytest_opprof.frameworks.live import registry
from pytest_opprof.ops import names
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.events.event_log import EventLog

from ...conftest import profile_of


def test_the_built_in_backends_are_found_and_load() -> None:
    assert {"numpy", "torch", "cuda", "fake"} <= set(registry.find())
    for name in ("numpy", "torch", "cuda", "fake"):
        assert registry.load(name).name == name


def test_automatic_choice_leaves_the_fake_device_out() -> None:
    assert "fake" not in {backend.name for backend in registry.load_all(None)}


class Mine(Backend):
    """What a third party has to write, and no more."""

    name = "mine"
    vocabulary: ClassVar[Mapping[str, str]] = {"Relu": "mine.clamp0 mine.clamp0_", "MyOp": "mine.special"}

    def in_use(self) -> bool:
        return False

    def collect(self, options: Options) -> AbstractContextManager[EventLog]:
        return nullcontext(EventLog(Environment((("mine", "1"),))))


class Incomplete(Backend):
    """Records nothing."""

    name = "broken"


def misnamed() -> Backend:
    backend = Mine()
    backend.name = "yours"
    return backend


def wordless() -> Backend:
    backend = Mine()
    backend.vocabulary = {"Relu": ["mine.clamp0"]}  # type: ignore[dict-item]
    return backend


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Return a function that installs backends of third parties."""

    def add(**factories: str) -> None:
        points = [EntryPoint(name, factory, registry.GROUP) for name, factory in factories.items()]
        monkeypatch.setattr(registry, "entry_points", lambda group: points)
        registry._of_third_parties.cache_clear()

    yield add
    registry._of_third_parties.cache_clear()
    for name in [*names._learned]:
        names.learn(name, {})


def test_a_third_party_backend_needs_two_methods_and_has_the_rest(install: Callable[..., None]) -> None:
    install(mine=f"{__name__}:Mine")
    mine = registry.load("mine")
    assert isinstance(mine, Mine)
    assert (mine.unavailable(), mine.blind(), mine.selfcheck_work(), mine.hint) == (None,) * 3 + ("",)
    mine.begin_test()
    mine.settle()
    with registry.threads_limited([mine], 1):
        pass


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("no_such_module:backend", r"does not load: ModuleNotFoundError"),
        (f"{__name__}:Incomplete", r"does not load: TypeError.*abstract method"),
        (
            "builtins:dict",
            r"cannot be used: it is a builtins.dict, which does not derive from pytest_opprof.backends.B",
        ),
        (f"{__name__}:misnamed", r"cannot be used: its entry point is called 'broken', its `name` is 'yours'"),
    ],
)
def test_a_backend_that_breaks_says_how(install: Callable[..., None], factory: str, said: str) -> None:
    install(broken=factory)
    with pytest.raises(BackendError, match=rf"backend 'broken' \({factory}\) {said}"):
        registry.load("broken")
    assert [problem.partition(")")[0] for problem in registry.learn_names()] == [f"backend 'broken' ({factory}"]


def test_a_vocabulary_of_another_shape_is_an_error(install: Callable[..., None]) -> None:
    install(mine=f"{__name__}:wordless")
    with pytest.raises(BackendError, match="its `vocabulary` must be a mapping from canonical ops to raw names"):
        registry.load("mine")


def test_a_finder_that_a_program_adds_during_a_run_cannot_hide_backends(
    install: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(group: str) -> None:
        raise RuntimeError("no such attribute")

    install(mine=f"{__name__}:Mine")
    assert isinstance(registry.load("mine"), Mine)
    monkeypatch.setattr(registry, "entry_points", fails)
    assert isinstance(registry.load("mine"), Mine)
    registry._of_third_parties.cache_clear()
    said = re.escape("a finder in sys.meta_path cannot list the installed packages: RuntimeError('no such attribute')")
    with pytest.raises(BackendError, match=said):
        registry.load("mine")


def test_a_third_party_cannot_take_the_place_of_ours(install: Callable[..., None]) -> None:
    install(fake=f"{__name__}:Mine")
    assert registry.load("fake") is fake.backend()


def test_what_a_backend_calls_its_ops_is_known_where_it_is_installed(
    install: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    profile = profile_of([("Cast", 1)])
    with pytest.raises(UsageError, match=r"unknown op 'mine\.clamp0'"):
        profile.stats("mine.clamp0")
    install(mine=f"{__name__}:Mine", broken="no_such_module:backend")
    assert main.main(["ops", "mine.clamp0", "mine.special"]) == 0
    listed = capsys.readouterr()
    assert "mine       mine.clamp0 mine.clamp0_\n" in listed.out
    assert "MyOp  mine       mine.special\n" in listed.out
    assert listed.err.startswith("opprof: backend 'broken' (no_such_module:backend) does not load")
    assert names.meaning("mine.clamp0_").op == "Relu"
    assert [profile.stats(name).calls for name in ("mine.clamp0", "MyOp", "mine.spec*", "MyO*")] == [(0,)] * 4
    with pytest.raises(UsageError, match=r"unknown op 'MyOpp': did you mean 'MyOp'\?"):
        profile.stats("MyOpp")


def test_where_both_have_a_name_ours_decides(install: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    install(mine=f"{__name__}:Mine")
    monkeypatch.setattr(Mine, "vocabulary", {"Relu": "aten::mm", "MyOp": "mine.special"})
    registry.learn_names()
    assert (names.meaning("aten::mm").op, names.meaning("mine.special").op) == ("MatMul", "MyOp")


def test_hints_are_those_of_backends_that_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    backends = [registry.load(name) for name in ("numpy", "torch")]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert registry.hints(backends) == "torch must be imported at the top of the module"
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    assert registry.hints(backends) == ""
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert registry.hints(backends) == ""
    assert registry.hints([fake.backend()]) == ""


def test_a_name_that_does_not_exist_is_an_error_with_the_nearest() -> None:
    known = ", ".join(sorted(registry.find()))
    with pytest.raises(BackendError, match=rf"no backend 'toch': did you mean 'torch'\? Known: {known}\."):
        registry.load("toch")


def test_a_chosen_backend_that_cannot_run_is_an_error_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake.FakeBackend, "unavailable", lambda self: "no device")
    with pytest.raises(BackendError, match="backend 'fake' cannot run here: no device"):
        registry.load_all(["fake"])


def test_outside_a_window_the_fake_device_does_nothing() -> None:
    assert fake.launch("Add") == -1
    fake.allocate(5)
