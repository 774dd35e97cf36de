"""Shared by all tests."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import select
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # some tests have sessions of their own: see frameworks.pytorch.live
# GNU Readline, which pytest imports, sets it to 80 for child processes, workers of xdist among them.
os.environ.pop("COLUMNS", None)
os.unsetenv("COLUMNS")

import pytest

from pytest_opprof.backends import fake
from pytest_opprof.errors import BackendError
from pytest_opprof.measure import recorder
from pytest_opprof.processes import child
from pytest_opprof.processes.pool import Pool
from pytest_opprof.processes.recorded_window import RecordedWindow
from pytest_opprof.processes.recording import Recording
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.events.assembly import assemble
from pytest_opprof.profile.events.event_log import EventLog
from pytest_opprof.profile.op_profile import OpProfile
from pytest_opprof.pytest_plugin import closing
from pytest_opprof.pytest_plugin.measuring import Measuring
from pytest_opprof.pytest_plugin.reruns import times as judged_times
from pytest_opprof.pytest_plugin.reruns.order import Order
from pytest_opprof.results import window_result
from pytest_opprof.results.test_result import TestRecord
from pytest_opprof.results.window_result import SitesByOp
from pytest_opprof.verdict.times.stored_rule import Rule

pytest_plugins = ["pytester"]
if HAS_HYPOTHESIS := importlib.util.find_spec("hypothesis") is not None:
    import hypothesis

    # A busy machine is no failure. Unchanged code gets the same examples; --hypothesis-profile=hunt gives others.
    lenient = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
    hypothesis.settings.register_profile("hunt", **lenient)
    hypothesis.settings.register_profile("opprof", derandomize=True, **lenient)
    hypothesis.settings.load_profile("opprof")
FRAMEWORKS = {
    "torch": "torch is not installed (pip install torch==2.13.0)",
    "jax": "jax is not installed (make test-jax)",
    "onnxruntime": "onnxruntime is not installed (make test-onnxruntime)",
    "mindspore": "mindspore is not installed (make test-mindspore)",
}
"""By mark: why a test that needs the framework does not run without it."""
HAS_TORCH = importlib.util.find_spec("torch") is not None
# pytester forgets the modules that its runs import first; a second copy of an enum is not the same enum.
_MODULES = (
    "pytest_plugin.hooks frameworks.numpy.live.backend frameworks.pytorch.live.cuda frameworks.nvidia.live.events"
)
for module in _MODULES.split():
    importlib.import_module(f"pytest_opprof.{module}")
importlib.import_module("numpy.testing")  # NumPy 1.26 starts lscpu then
# A run of pytester has a home of its own: there the self-test of the NumPy backend would run in each.
os.environ.setdefault("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
importlib.import_module("pytest_opprof.frameworks.numpy.live.selftest").problem()
HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """Know the option of a plugin that is not installed where only a GPU is tested: unknown ones are errors."""
    if importlib.util.find_spec("pytest_asyncio") is None:
        parser.addini("asyncio_default_fixture_loop_scope", "of pytest-asyncio, which is not installed")


def _needs_a_gpu_alone(config: pytest.Config) -> bool:
    return config.option.markexpr.split()[:1] == ["gpu"]


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as under nohup or in a job of a script: tests send Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not HAS_HYPOTHESIS and not _needs_a_gpu_alone(config):
        raise pytest.UsageError(
            'hypothesis is not installed: pip install -e ".[test]". Only pytest -m gpu does without'
        )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what needs no GPU where only that is asked for: it needs packages that such a machine may lack."""
    is_elsewhere = collection_path.parent == HERE and collection_path.name not in ("gpu", "__init__.py")
    return True if is_elsewhere and _needs_a_gpu_alone(config) else None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Import what can be imported only once, as it registers ops and kinds of caches, before pytester forgets it.

    Not for tests on a GPU: torch would take CUPTI, which serves one profiler a process.
    """
    if HAS_TORCH and not all(item.get_closest_marker("gpu") for item in session.items):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it imports what torch deprecates
            for module in (
                "torch._dynamo",
                "torch._functorch.aot_autograd",
                "torch._inductor.runtime.autotune_cache",
                "torch._inductor.codecache",
            ):
                importlib.import_module(module)
            sys.modules["torch._dynamo"].list_backends()  # imports those that come with it


SHARED = HERE.parents[1] / "shared" / "profiles"
"""Recordings of public repositories, which are not ours to distribute; beside the repository where there are any."""


def shared(path: str) -> Path:
    """Return a recording that is not part of the repository; skip the test where it is not at hand."""
    found = SHARED / path
    if not found.exists():
        # Continuous integration has them: there a skip would hide what only they can show.
        (pytest.fail if "OPPROF_REQUIRE_SHARED" in os.environ else pytest.skip)(f"{found} is not there")
    return found


_started: list[object] = []
"""The processes that the running test started."""
sys.addaudithook(lambda event, arguments: _started.append(arguments[0]) if event == "subprocess.Popen" else None)


@pytest.fixture
def untraced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure times as if no tracer watched each line, here and in processes that tests start: coverage does."""
    monkeypatch.setattr(recorder, "_is_traced", lambda: False)
    for name in _COVERAGE:
        monkeypatch.delenv(name, raising=False)


_COVERAGE = ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")


@pytest.fixture(autouse=True)
def _coverage_of_this_suite_sees_the_processes_that_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    if any(name in os.environ for name in _COVERAGE):
        monkeypatch.setattr(child, "TRACERS", ())


@pytest.fixture(autouse=True)
def _no_run_asks_git_for_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "commit", lambda folder: "")  # a process, for each run with --opprof-json


@pytest.fixture(autouse=True)
def _what_starts_a_process_is_marked(request: pytest.FixtureRequest) -> Iterator[None]:
    _started.clear()
    yield
    is_ours = request.config.pluginmanager.hasplugin("opprof-measuring")  # make performance: it starts them itself
    if _started and not is_ours and not request.node.get_closest_marker("processes"):
        # In CI those that are marked run in a job of their own.
        pytest.fail(f"the test started {_started[0]}: mark it with @pytest.mark.processes")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for framework, reason in FRAMEWORKS.items():
        if item.get_closest_marker(framework) and importlib.util.find_spec(framework) is None:
            # Continuous integration has it: there a skip would hide what only it can show.
            is_required = f"OPPROF_REQUIRE_{framework.upper()}" in os.environ
            (pytest.fail if is_required else pytest.skip)(reason)


@pytest.fixture
def beside_other_software(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make up what a build of PyTorch for CUDA imports, and that this is one: tests of others must not depend on it."""
    triton, nvtx = ModuleType("triton"), ModuleType("torch.cuda.nvtx")
    triton.__version__ = "3.5.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "triton", triton)
    if torch := sys.modules.get("torch"):
        monkeypatch.setattr(torch.version, "cuda", "13.0")
        nvtx.range_push = nvtx.range_pop = lambda *name: pytest.fail("PyTorch was asked")  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "torch.cuda.nvtx", nvtx)
    yield
    # PyTorch keeps in mind that there is a Triton, and imports it when it comes to compile.
    asks = sys.modules.get("torch.utils._triton")
    for function in vars(asks).values() if asks else ():
        getattr(function, "cache_clear", lambda: None)()


@pytest.fixture(autouse=True)
def _the_fake_device_is_itself_again() -> Iterator[None]:
    yield
    fake.pretend()


def _seen_in_the_run(of: Recording, tests: Sequence[TestRecord]) -> dict[str, dict[str, SitesByOp]]:
    return {test.id: {window.name: window.sites for window in test.windows} for test in tests}


@pytest.fixture
def few_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes that a test starts load no plugins but these two: the others take most of what pytest takes."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_opprof.plugin,xdist.plugin")


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pytest.RunResult]:
    """Run pytest on the files of pytester with the fake device, in this process.

    How busy the machine is does not matter, and neither are baselines and call sites recorded nor calls confirmed in
    other processes: a fresh one takes 0.5 s, and other plugins would add as much. Leaks are looked for, and bodies run
    more often for their time, only where a test asks: pytester keeps records of each call. `thrice` makes times
    of the baselines that are judged, `looks` gives what confirms calls. Coarse times are measured where a test says
    `coarsely`.
    """
    looks(monkeypatch, BackendError("none is started in this test"))
    in_one_thread(monkeypatch, BackendError("none is started in this test"))
    monkeypatch.setattr(Order, "_measure", lambda order, test: None)
    monkeypatch.setattr(Measuring, "_glance_for_leaks", lambda measuring, test, measurement, call: None)
    monkeypatch.setattr(Measuring, "_time_repeats", lambda measuring, test, measurement, call: None)
    monkeypatch.setattr(Recording, "sites", _seen_in_the_run)
    monkeypatch.setattr(window_result, "coarse_of", lambda profile: None)
    monkeypatch.setattr(RecordedWindow, "keep_coarse", lambda window: None)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini(
        "[pytest]\nopprof_backend = fake\nopprof_noise = ignore\naddopts = -p opprof -p xdist -p no:cacheprovider\n"
    )

    def run(*arguments: str, **how: bool) -> pytest.RunResult:
        alone = ["--opprof-processes=1"] if {"--opprof-update", "--opprof-update-new"} & {*arguments} else []
        return pytester.runpytest_inprocess(*alone, *arguments, **how)

    return run


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look only once at what is slower: each further process takes a second, and a limit is the same in all."""
    monkeypatch.setattr(judged_times, "Rule", partial(Rule, processes=1, most_processes=1))


ALONE, SECOND = Pool.alone, Pool.second
"""The real ones: `suite` puts others in their place."""


def looks(monkeypatch: pytest.MonkeyPatch, *found: object) -> list[str]:
    """Stand for the fresh process that confirms calls: what it finds, or raises. Return the tests it is asked for."""
    asked = []

    def alone(pool: Pool, file: str, test: str, times: int) -> list[object]:
        asked.append(test)
        for look in found:
            if isinstance(look, BaseException):
                raise look
        return list(found)

    monkeypatch.setattr(Pool, "alone", alone)
    monkeypatch.setattr(Pool, "second", lambda pool, *test: [])
    return asked


IN_ONE_THREAD = Pool.in_one_thread
"""The real one: `suite` puts another in its place."""


def in_one_thread(monkeypatch: pytest.MonkeyPatch, *found: object) -> list[int]:
    """Stand for the fresh processes that confirm coarse times: what each finds, or raises. Return those asked."""
    asked: list[int] = []

    def measured(
        pool: Pool, test: str, number: int, stays: bool, is_enough: Callable[[Any], bool], *, repeats: bool = False
    ) -> list[Any]:
        asked.append(number)
        look = found[min(number, len(found) - 1)]
        if isinstance(look, BaseException):
            raise look
        answers = look if isinstance(look, list) else [look, look]
        return answers[:1] if is_enough(answers[0]) else answers

    monkeypatch.setattr(Pool, "in_one_thread", measured)
    return asked


COARSE = window_result.coarse_of, RecordedWindow.keep_coarse


def coarsely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the runs of `suite` measure coarse times."""
    monkeypatch.setattr(window_result, "coarse_of", COARSE[0])
    monkeypatch.setattr(RecordedWindow, "keep_coarse", COARSE[1])


def thrice(pytester: pytest.Pytester) -> None:
    """Let the one process in each baseline stand for the three that times are judged by."""
    for path in pytester.path.rglob("*.py.times.json"):
        document = json.loads(path.read_text())
        for windows in document["times"].values():
            for times in (times for machines in windows.values() for times in machines.values()):
                conditions = [times[key] for key in ("wait_us", "yardstick_us") if key in times]
                for processes in (*times["ops_us"].values(), times["total_us"], *conditions):
                    processes *= 3
        path.write_text(json.dumps(document))


ELSEWHERE = "os.environ['OPPROF_RUN'] != str(os.getpid())"
"""In a test: whether it runs in another process than that of the run."""
HANG = "os.symlink(str(os.getpid()), 'pid'); [None for _ in iter(int, 1)]"
"""Says which process it is, in one step, and never ends."""


def end_at_once(monkeypatch: pytest.MonkeyPatch, by: type[BaseException] = TimeoutError) -> None:
    """Let the time be up as soon as the fresh process hangs, or end the waiting by another exception."""
    line = child._line

    def until_it_hangs(connection: socket.socket, *size: int) -> bytes:
        while not os.path.lexists("pid"):
            if select.select([connection], [], [], 0.01)[0]:
                return line(connection, *size)
        raise by

    monkeypatch.setattr(child, "_line", until_it_hangs)


Launch = tuple[str, int]
ENVIRONMENT = Environment((("fake", "1"),), "fake", "x86_64", "async")


def profile_of(*rounds: list[Launch], environment: Environment = ENVIRONMENT, **known: bool) -> OpProfile:
    """Return the profile of rounds of (raw name, device ns), one list a round."""
    log = EventLog(environment)
    log.knows_flops, log.knows_memory = known.get("flops", False), known.get("memory", False)
    for launches in rounds:
        log.mark()
        for raw, device_ns in launches:
            log.add(log.name(raw), device_ns)
    return assemble([(log.freeze(), {n + 1: n for n in range(len(rounds))})], [10_000] * len(rounds))


def remarks_of(profile: OpProfile) -> list[str]:
    """Return the texts of a profile's remarks."""
    return [remark.text for _, remark in profile.remarks]
