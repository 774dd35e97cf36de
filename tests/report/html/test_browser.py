"""The pages in a real browser: from disk, without a network, with and without scripts and styles."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.profile.saved import Collective, SavedKernel, SavedOp, SavedProfile
from pytest_opprof.questions.spread import spread
from pytest_opprof.report.html import diff_page, history_page, profile_page, ranks_page, run_page, times
from pytest_opprof.results.run_result import Stale
from pytest_opprof.timeline.spans import Kind
from pytest_opprof.verdict.compare import compare
from pytest_opprof.verdict.tolerances import STORED
from pytest_opprof.verdict.verdicts import Times, TimingVerdict, Verdict

from ...git_history import HERE
from ...timeline.made import HOST, STREAM, timeline
from ..made_runs import record_of, run
from .test_history_page import HOSTILE, of
from .test_ranks_page import many

pytestmark = pytest.mark.processes
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync""".split()
NAMES = ("run", "profile", "diff", "history", "ranks", "many")
LONG = f"void kernel<{'float, ' * 40}>"
"""The name of a kernel."""
JENKINS = "sandbox; default-src 'none'; img-src 'self'; style-src 'self';"
"""The policy under which Jenkins serves what a job made."""


def pages() -> dict[str, str]:
    """Return a page of each kind, with names that would be markup if they were not escaped."""
    changed = {"Cast": 1, "Add": 2}, {"Cast": 3, "Add": 2, HOSTILE: 1}
    tests = [
        *(record_of(f"t.py::test_a[{n}]", *changed, Cast=2, device_time="1 s") for n in (1, 2)),
        record_of(f"t.py::test_b[{HOSTILE}]", {"Add": 9}, {"Add": 2}),
        record_of("t.py::test_c", None, {"Mul": 4}, only=["Mul"]),
    ]
    kernels = SavedKernel(HOSTILE, "Conv", 0, 1, 9.0), SavedKernel(LONG, "Conv", 0, 1, 8.0)
    ops = [SavedOp(name, name, device_ns=1e6 / n, calls=n) for n, name in enumerate(["Conv", "Cast", HOSTILE], 1)]
    saved = SavedProfile("made", Environment((("made", "1"),), "cpu", ""), tuple(ops), kernels=kernels)
    ran = timeline(
        (HOST, HOSTILE, Kind.STEP, 0, 1000),
        (HOST, HOSTILE, Kind.RANGE, 10, 100),
        (HOST._replace(thread=HOSTILE), HOSTILE, Kind.RANGE, 5, 200),
        (HOST._replace(thread=HOSTILE), HOSTILE, Kind.OP, 10, 100),
        *((STREAM, HOSTILE, Kind.OP, 10 * n, 5, 10 * n - 9) for n in range(1, 90)),
    )
    before, after = ({name: OpCounts(Range(n)) for name in ("Conv", HOSTILE)} for n in (1, 2))
    measured = (Times(n, {"Conv": n - 100, HOSTILE: 100}) for n in (1000, 2000))
    diff = compare((before, {}), (after, {}), TimingVerdict(Verdict.OK, "", *measured), STORED)
    steps = of(
        {HOSTILE: {"Cast": 1}}, {HOSTILE: {"Cast": 3}}, {HOSTILE: {"Cast": 2}, "u": {HOSTILE: 1}}, subject=HOSTILE
    )
    ranks = [
        replace(saved, records=tuple(ops[:n]), collectives=(Collective("AllReduce", "0", 0, n * 1e6),)) for n in (2, 3)
    ]
    side = diff_page.Compared(HOSTILE, "made", "cpu")
    return {
        "run": run_page.html(run(*tests, stale=[Stale(HOSTILE, file=HOSTILE)], errors=[HOSTILE])),
        "profile": profile_page.html(saved, HOSTILE, times.of(saved, ran, is_chosen=False)),
        "diff": diff_page.html(side, side, diff),
        "history": history_page.html(steps, {HERE: steps.ops(HERE, lambda test: True)}, None, HOSTILE, [HOSTILE]),
        "ranks": ranks_page.html(spread(ranks), [HOSTILE, "rank 1"], HOSTILE, "made", [HOSTILE]),
        "many": ranks_page.html(spread(many(30, 2, 3)), range(30), HOSTILE, "made", [HOSTILE]),
    }


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    missing = [name for name in ("playwright", "axe_playwright_python") if importlib.util.find_spec(name) is None]
    missing += [] if CHROMIUM else ["chromium"]
    if missing:
        # Continuous integration has them: there a skip would hide what only they can show.
        is_required = "OPPROF_REQUIRE_CHROMIUM" in os.environ
        (pytest.fail if is_required else pytest.skip)(f"{', '.join(missing)}: not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def shown(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Return what shows a page: nothing may be asked of a network, no dialog opens, and nothing is complained about."""
    contexts, asked, said = [], [], []
    files = {name: tmp_path / f"{name}.html" for name in NAMES}
    for name, text in pages().items():
        files[name].write_text(text, encoding="utf-8")

    def show(name: str, fragment: str = "", *, policy: str = "", **how: Any) -> Any:
        context = browser.new_context(**{"offline": True, "viewport": {"width": 1280, "height": 900}, **how})
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("dialog", lambda dialog: (said.append(f"dialog {dialog.message}"), dialog.dismiss()))
        if policy:  # its own words about what it blocks are as meant
            body = files[name].read_text(encoding="utf-8")
            address = f"http://a.test/{name}.html{fragment}"
            headers = {"Content-Security-Policy": policy, "Content-Type": "text/html; charset=utf-8"}
            page.route("**/*", lambda route: route.fulfill(body=body, headers=headers))
        else:
            page.on("console", lambda message: said.append(message.text))
            page.on("pageerror", lambda error: said.append(str(error)))
            address = f"{files[name].as_uri()}{fragment}"
        page.goto(address)
        return page

    yield show
    for context in contexts:
        context.close()
    assert said == []
    assert {url.partition("#")[0] for url in asked} <= {
        *(path.as_uri() for path in files.values()),
        *(f"http://a.test/{name}.html" for name in files),
    }


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("dark", 390)])
@pytest.mark.parametrize("name", NAMES)
def test_pages_are_accessible_and_load_nothing(shown: Callable[..., Any], name: str, scheme: str, width: int) -> None:
    from axe_playwright_python.sync_playwright import Axe

    # Axe is a script that the policy of the page would block.
    page = shown(name, color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    found = Axe().run(page)
    assert [(each["id"], each["nodes"][0]["html"]) for each in found.response["violations"]] == []
    assert page.locator("img").count() == 0
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 24, 29)"}[scheme]


@pytest.mark.parametrize("name", NAMES)
def test_a_narrow_page_does_not_scroll_sideways(shown: Callable[..., Any], name: str) -> None:
    page = shown(name, viewport={"width": 400, "height": 800})
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") == 400


def test_a_heading_sorts_by_click_and_by_key(shown: Callable[..., Any]) -> None:
    page = shown("profile")

    def calls() -> list[str]:
        return page.locator("#ops tbody tr td:nth-child(2)").all_text_contents()  # type: ignore[no-any-return]

    assert calls() == ["1", "2", "3"]
    heading = page.locator("#ops th:nth-child(2)")
    heading.locator("button").click()
    assert (calls(), heading.get_attribute("aria-sort")) == (["3", "2", "1"], "descending")
    heading.locator("button").press("Enter")
    assert (calls(), heading.get_attribute("aria-sort")) == (["1", "2", "3"], "ascending")
    assert page.locator("#ops th[aria-sort]").count() == 1


def test_names_in_the_treemap_stay_inside_of_their_areas(shown: Callable[..., Any]) -> None:
    page = shown("profile")
    over = """groups => groups.map(group => {
        const end = each => each.getBBox().x + each.getBBox().width, area = group.querySelector("rect");
        return [...group.querySelectorAll("text")].map(text => end(text) - end(area));
    }).flat()"""
    ends = page.locator("svg[viewBox] g:has(> title)").evaluate_all(over)
    assert len(ends) == 6
    assert max(ends) <= 0


def test_on_a_narrow_page_rows_of_tables_are_cards(shown: Callable[..., Any]) -> None:
    page = shown("profile", viewport={"width": 390, "height": 800})
    cell = page.locator("#ops tbody tr").first.locator("td:nth-child(3)")
    assert cell.get_attribute("data-l") == "device time"
    assert page.evaluate("document.querySelector('#ops').parentElement.scrollWidth") <= 390
    assert (
        page.evaluate("getComputedStyle(document.querySelector('#ops thead tr'), '::before').content") == '"sort by:"'
    )
    assert page.locator("#ops thead th:visible").count() == page.locator("#ops thead th[data-sort]").count() > 3
    wide = shown("profile")
    assert wide.locator(".cards-of").count() == 0
    wide.set_viewport_size({"width": 390, "height": 800})
    wide.locator("#ops.cards-of").wait_for()


def test_a_heat_map_says_at_the_pointer_which_rank_it_is_and_scrolls_on_a_narrow_page(
    shown: Callable[..., Any],
) -> None:
    page = shown("many")
    at = """map => {
        const box = map.getBoundingClientRect(), x = box.left + 70 + 38 * 7 + 1, y = box.top + 30;
        return document.elementFromPoint(x, y).textContent;
    }"""
    assert page.locator("svg[role=img]").first.evaluate(at) == "rank 7: 4 ms"
    narrow = shown("many", viewport={"width": 390, "height": 900}, java_script_enabled=False)
    assert narrow.locator(".scroll:has(> svg)").first.evaluate("map => map.scrollWidth > 1000") is True


def test_cards_of_a_table_that_is_not_sorted_have_no_headings_above_them(shown: Callable[..., Any]) -> None:
    page = shown("diff", viewport={"width": 390, "height": 800})
    assert page.locator("#steps thead").is_hidden()
    assert page.locator("#steps tbody td[data-l]").evaluate_all("cells => cells.map(cell => cell.dataset.l)") == [
        "total",
        *["change"] * (page.locator("#steps tbody tr").count() - 2),
        "total",
    ]


def test_a_narrow_page_says_that_the_timeline_goes_on_and_names_its_last_tick(shown: Callable[..., Any]) -> None:
    hint = "scroll it sideways"
    assert shown("profile").get_by_text(hint).is_hidden()
    page = shown("profile", viewport={"width": 390, "height": 800})
    assert page.get_by_text(hint).is_visible()
    ticks = page.locator("#timeline > g:last-child")
    assert ticks.locator("text").count() == ticks.locator("path").count() - 1
    ends = ticks.locator("text").evaluate_all("texts => texts.map(each => each.getBBox().x + each.getBBox().width)")
    assert max(ends) < 1241


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_first_thing_that_the_keyboard_reaches_skips_to_what_the_page_is_about(
    shown: Callable[..., Any], name: str
) -> None:
    page = shown(name)
    page.keyboard.press("Tab")
    target = page.evaluate("document.activeElement.getAttribute('href')")
    assert page.locator(target).count() == 1
    assert page.locator(".skip").bounding_box()["x"] >= 0


def test_bars_of_the_timeline_have_names_by_pointer_and_keyboard_and_lead_to_their_op(
    shown: Callable[..., Any],
) -> None:
    page = shown("profile")
    said, bars = page.locator("#timeline-said"), page.locator("#timeline rect.one")
    bars.nth(3).hover()
    assert said.text_content().startswith(f"{HOSTILE}, 5 ns, from ")
    bars.first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == bars.nth(1).text_content()
    # One stop for the Tab key, however many bars there are.
    assert page.locator("#timeline [tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    row = page.evaluate("document.querySelector(location.hash).cells[0].textContent")
    assert row == HOSTILE
    page.locator("#timeline").scroll_into_view_if_needed()
    box = page.locator("#timeline").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 2)
    assert said.text_content() == "at 500 ns"


def test_a_long_name_is_cut_and_opens(shown: Callable[..., Any]) -> None:
    page = shown("profile")
    name = page.locator("#kernels details.long")
    assert name.locator("summary").text_content() == f"{LONG[:110]}…"
    name.locator("summary").press("Enter")
    assert LONG in name.inner_text()


def test_a_button_beside_a_command_copies_it(shown: Callable[..., Any]) -> None:
    page = shown("run", "#t0", permissions=["clipboard-read", "clipboard-write"])
    command = page.locator("#t0 code.cmd").first
    page.locator("#t0 button.copy").first.press("Enter")
    page.locator("#t0 button.copy", has_text="copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == command.text_content()


def test_words_and_statuses_choose_tests(shown: Callable[..., Any]) -> None:
    page = shown("run")
    tests = page.locator("details.test")
    tools = page.locator("[data-filter='.test']")
    tools.locator("input[type=search]").fill("TEST_C")
    assert [each.get_attribute("id") for each in tests.all() if each.get_attribute("hidden") is None] == ["t3"]
    assert tools.locator("[role=status]").text_content() == "1 of 4 shown"
    assert page.locator("details.group").is_hidden()
    tools.locator("input[type=search]").fill("")
    tools.locator("label", has_text="over budget").click()
    assert page.locator("details.test:not([hidden])").count() == 2
    assert page.locator("details.group").is_visible()


def test_a_link_opens_the_test_inside_its_row(shown: Callable[..., Any]) -> None:
    page = shown("run", "#t1")
    assert page.locator("#t1").get_attribute("open") is not None
    assert page.locator("#t1 table").first.is_visible()
    assert page.locator("#t3 table").first.is_hidden()
    page.locator("#limits a", has_text="test_c").click()
    page.locator("#t3 table").first.wait_for(state="visible")  # the browser tells of the new address a little later


def test_the_tree_of_ranges_opens_without_scripts_and_its_ops_lead_to_their_rows(shown: Callable[..., Any]) -> None:
    page = shown("profile", java_script_enabled=False)
    node = page.locator(".tree details").first
    if node.get_attribute("open") is None:
        node.locator("summary").first.click()
    assert page.locator(".tree details .name a").first.is_visible()
    assert page.locator(str(page.locator(".tree a").first.get_attribute("href"))).count() == 1


def test_without_scripts_all_can_be_read(shown: Callable[..., Any]) -> None:
    page = shown("run", java_script_enabled=False)
    assert page.locator("input").first.is_hidden()  # what would do nothing
    assert page.locator("#t3 table").first.is_hidden()
    page.locator("#t3 summary").click()
    assert page.locator("#t3 table").first.is_visible()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_under_the_policy_of_jenkins_all_can_be_read(shown: Callable[..., Any], name: str) -> None:
    page = shown(name, policy=JENKINS, offline=False)
    assert page.locator("h1").is_visible()
    assert page.locator("input").first.is_hidden()
    bar = page.locator("svg [fill^='#']").first
    assert bar.get_attribute("fill").startswith("#")  # type: ignore[union-attr]
    assert page.locator("table td:visible").count() > 0
