"""The README and the documentation are true: what they promise of flags, files, links and figures is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from .pages import PAGES, ROOT, text

README = text("README.md")


def test_the_readme_is_read_in_five_minutes() -> None:
    assert len(README.splitlines()) <= 150


def test_who_opens_the_readme_sees_how_to_install_it_after_the_first_example() -> None:
    lines = README.splitlines()
    assert lines.index("```text") < lines.index("## Install") < 45


@pytest.mark.parametrize("page", [*PAGES, ROOT / "examples/numpy_filter/README.md"], ids=lambda page: page.name)
def test_no_page_names_an_address_that_is_not_there(page: Path) -> None:
    assert not re.search(r"OWNER|github\.com/[^/\s]+/pytest-opprof", page.read_text(encoding="utf-8"))


def test_every_flag_of_the_plugin_is_in_the_reference_and_no_page_names_another(pytester: pytest.Pytester) -> None:
    shown = pytester.runpytest_inprocess("--help", "-p", "no:asyncio").stdout.str()
    flags = set(re.findall(r"--opprof[a-z-]*", shown))
    assert flags == set(re.findall(r"`(--opprof[a-z-]*)", text("docs/reference/flags.md")))
    told = {flag for page in PAGES for flag in re.findall(r"--opprof[a-z-]*", page.read_text(encoding="utf-8"))}
    assert told <= {*flags, "--opprof-"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_links_to_is_there(page: Path) -> None:
    content = page.read_text(encoding="utf-8")
    for link, _, heading in (found.partition("#") for found in re.findall(r"\]\(([^):]+)\)", content)):
        target = page.parent / link if link else page
        assert target.exists(), link
        headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE) if heading else []
        assert heading in {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings} | {""}


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"^ +- ([\w/-]+\.md)$", text("mkdocs.yml"), re.MULTILINE))
    assert listed == {path.relative_to(ROOT / "docs").as_posix() for path in PAGES[1:]}


def test_what_contributing_says_is_where_it_says() -> None:
    paths = set(re.findall(r"`([a-z_/]+(?:/|\.py))`", text("CONTRIBUTING.md")))
    package = ROOT / "pytest_opprof"
    places = [ROOT, package, package / "ops" / "tables", package / "report" / "html"]
    assert [path for path in paths if not any((place / path).exists() for place in places)] == []
    packages = {path.name for path in (ROOT / "pytest_opprof").iterdir() if (path / "__init__.py").exists()}
    assert packages <= {path.strip("/") for path in paths}


@pytest.mark.processes
def test_its_line_for_git_hides_changed_times_and_shows_changed_calls(tmp_path: Path) -> None:
    (line,) = re.findall(r"^baselines/.*times\.json .*$", text("docs/baselines.md"), re.MULTILINE)
    assert line in text(".gitattributes")
    folder = tmp_path / "baselines" / "numpy-2.4.6-cpu-x86_64" / "tests"
    folder.mkdir(parents=True)
    (tmp_path / ".gitattributes").write_text(f"{line}\n")
    files = [folder / "test_a.py.json", folder / "test_a.py.times.json", folder.parent / "test_b.py.times.json"]

    def git(*arguments: str) -> str:
        command = ["git", "-c", "core.autocrlf=false", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    git("init", "-q")
    for content in ('{"a": 1}\n', '{"a": 2}\n'):
        for path in files:
            path.write_text(content)
        if "1" in content:
            git("add", ".")
    diff = git("diff")
    assert diff.count('+{"a": 2}') == 1
    assert diff.count("\nBinary files ") == 2
    assert git("check-attr", "linguist-generated", str(files[1])).endswith("linguist-generated: set\n")


def test_the_report_of_the_self_check_is_what_it_prints() -> None:
    from pytest_opprof.cli.selfcheck import checks

    shown = re.findall(r"^  (ok|figure) +([A-Za-z ]+?)  ", text("docs/selfcheck.md"), re.MULTILINE)
    assert [name for _, name in shown] == list(checks.CHECKS)
    assert [status for status, _ in shown] == [*["ok"] * 5, "figure"]


def test_the_defaults_it_states_are_the_defaults() -> None:
    from pytest_opprof.machine.cpu_core import INSISTING_S, MOST_INSISTING_S, PATIENCE, PATIENCE_S, YARDSTICK
    from pytest_opprof.machine.load import BUSY
    from pytest_opprof.verdict import tolerances
    from pytest_opprof.verdict.times import repeats

    stored, pairs = tolerances.STORED, tolerances.PAIRS
    assert (stored.tolerance, stored.op_tolerance, stored.op_floor_ns, stored.op_share) == (0.13, 0.25, 5_000, 0.05)
    assert (pairs.tolerance, pairs.op_tolerance, pairs.floor_ns, stored.floor_ns) == (0.06, 0.15, 2_000, 2_000)
    assert (repeats.BASE_PROCESSES, repeats.TIMED_PROCESSES, repeats.TIMED_PAIRS) == (5, 6, (5, 9))
    assert (repeats.LEAST_TIMED_PROCESSES, repeats.MOST_TIMED_PROCESSES, repeats.BASE_PROCESSES) == (3, 12, 10 / 2)
    assert (tolerances.LEAST_ROUNDS, tolerances.CLEAN_ROUNDS, tolerances.STEADY) == (10, 0.5, 0.03)
    assert (tolerances.AGREE, tolerances.LEAST_STORED, tolerances.TYPICAL) == (7 / 9, 0.1, 0.75)
    assert (YARDSTICK, BUSY, PATIENCE_S, PATIENCE) == (1.15, 0.25, 2.0, 0.2)
    assert (INSISTING_S, MOST_INSISTING_S) == (2.0, 5 * 2.0)
    said = " ".join(" ".join(text(f"docs/{page}.md") for page in ("times", "reference/flags", "budgets")).split())
    for words in (
        "default: 13%; against a revision 6%",
        "default: 25%; against a revision 15%",
        "default: 2 us",
        "from 10 rounds on times are judged",
        "in five processes",
        "Then it starts fresh processes. The test fails only if it is slower in the best of six",
        "six processes need half of their rounds clean",
        "takes the processes out of twelve that have it, if they are three or more",
        "up to ten, until the three fastest differ by",
        "2 s and 20 % of the time in total, plus 2 s for a test that looks slower, at most five times",
        "at most three quarters of that limit slower than the second-fastest",
        "if that is also 5 us and 5 % of the whole",
        "it cannot hold a tolerance below 10%",
        "five pairs of processes, and nine for tests that look slower",
        "A test is slower if the change is 6 % and seven of nine pairs",
        "If that takes 15 % longer",
        "use a quarter of the cores",
    ):
        assert words in said
