"""Which functions grew, in words: the project's own line first, and what follows from it once."""

from __future__ import annotations

from msgspec import structs

from pytest_opprof.profile.site_calls import SourceLine
from pytest_opprof.python_calls import causes
from pytest_opprof.python_calls.counted import CallingLine, PythonCalls
from pytest_opprof.python_calls.growth import NOTHING, Before
from pytest_opprof.python_calls.names import LOOP


def line(number: int, function: str, file: str = "tokenization.py") -> SourceLine:
    return SourceLine(file, number, function, "")


def of_calls(before: Before | None, now: PythonCalls) -> list[str]:
    return [cause.text for cause in causes.of_calls(before, now)]


def edge(number: int, caller: str, called: str, calls: int, direct: bool = True) -> CallingLine:
    return CallingLine(line(number, caller), called, calls, f"tokenization.{caller}", direct)


def test_the_line_that_calls_is_named_with_both_numbers():
    now = PythonCalls(
        functions={"tokenization._tokens_to_ids": 1, "list.index": 120_412},
        own=("tokenization._tokens_to_ids",),
        lines=(edge(812, "_tokens_to_ids", "list.index", 120_412),),
    )
    said = of_calls(Before({"tokenization._tokens_to_ids": 1, "list.index": 2}), now)
    assert [cause.line for cause in causes.of_calls(Before(), now)] == [line(812, "_tokens_to_ids")]
    elsewhere = structs.replace(now, own=())
    assert [cause.line for cause in causes.of_calls(Before(), elsewhere)] == [None]
    assert said == ["`_tokens_to_ids` at tokenization.py:812 calls `list.index` 120,412 times (baseline: 2)"]


def test_lines_of_some_calls_alone_are_said_to_be_that():
    now = PythonCalls(
        functions={"list.index": 4_495_887},
        lines=(edge(812, "_tokens_to_ids", "list.index", 300_000),),
        looked_up=300_000,
    )
    of_some, of_first = (
        "; lines were estimated from 300,000 calls",
        "; lines were looked up for the first 300,000 calls only",
    )
    assert of_calls(Before({"list.index": 2}), now) == [
        f"`_tokens_to_ids` at tokenization.py:812 calls `list.index` 4,495,887 times (baseline: 2){of_some}"
    ]
    now = structs.replace(now, uncounted="it took more than 20 s")
    assert [cause.text for cause in causes.lines_of({"list.index"}, now)] == [
        f"`_tokens_to_ids` at tokenization.py:812 calls `list.index` 300,000 times{of_first}"
    ]


def test_a_changed_line_calls_what_the_baseline_may_lack():
    """A baseline leaves out functions of few calls: the one that leads to the thousands may be new."""
    now = PythonCalls(
        functions={"tokenization.coloured": 1, "tokenization.mask": 1, "image.getpixel": 7_569},
        own=("tokenization.coloured", "tokenization.mask"),
        lines=(edge(106, "coloured", "tokenization.mask", 1), edge(35, "mask", "image.getpixel", 7_569)),
    )
    before = Before({"image.getpixel": 20}, above=10)
    assert causes.to_look_up(before, now.functions) == {*now.functions}
    loop, change = (
        "`mask` at tokenization.py:35 calls `image.getpixel` 7,569 times (baseline: 20)",
        "`coloured` at tokenization.py:106 calls `tokenization.mask` once (baseline: at most 10); 1 more function"
        " (+7,549 calls) follows from it: `image.getpixel` at tokenization.py:35",
    )
    assert of_calls(before, now) == [loop]
    assert [each.text for each in causes.of_calls(before, now, lambda line: line.line == 106)] == [change]
    known = Before({"tokenization.coloured": 1, "tokenization.mask": 1, "image.getpixel": 20})
    assert [each.text for each in causes.of_calls(known, now, lambda line: line.line == 106)] == [loop]


def test_a_function_of_the_project_that_the_baseline_lacks_was_never_called():
    """The baseline keeps those of the project, however few their calls."""
    now = PythonCalls(
        functions={"tokenization.move": 1, "lib.helper": 18},
        own=("tokenization.move", "tokenization.write"),
        lines=(edge(10, "run", "tokenization.move", 1), edge(200, "move", "lib.helper", 18)),
    )
    before = Before({}, above=10, has_own=True).with_own(now.own)
    assert of_calls(before, now) == [
        "`run` at tokenization.py:10 calls `tokenization.move` once (baseline: 0); 1 more function (+8 calls) follows"
        " from it"
    ]
    assert Before({}, above=10).with_own(now.own).said("tokenization.move") == "at most 10"


def test_a_line_that_consumes_a_generator_of_another_function_does_not_cause_what_that_does():
    """importlib_metadata's `search` returns a generator, which the test's line goes through."""
    inside = "tokenization.search.<locals>.<genexpr>"
    functions = {"tokenization.search": 60, inside: 60, "tokenization.matches": 1_830, "str.startswith": 9_000}
    lines = (
        edge(11, "run", inside, 60, direct=False),
        structs.replace(edge(492, "", "tokenization.matches", 1_830), line=line(492, "<genexpr>"), caller=inside),
        edge(500, "matches", "str.startswith", 9_000),
    )
    now = PythonCalls(functions=functions, own=tuple(functions), lines=lines)
    assert of_calls(Before({"tokenization.search": 60}), now) == [
        "`search` at tokenization.py:492 calls `tokenization.matches` 1,830 times (baseline: 0); 1 more function"
        " (+9,000 calls) follows from it: `str.startswith` at tokenization.py:500"
    ]
    of_line = structs.replace(now, lines=(edge(490, "search", inside, 60), *lines[1:]))
    assert of_calls(Before({"tokenization.search": 60}), of_line)[0].startswith("`search` at tokenization.py:490 calls")


def test_what_an_event_loop_does_follows_from_the_lines_of_coroutines():
    run, debug, wait = "asyncio.runners.run", "asyncio.base_events.BaseEventLoop.get_debug", "tokenization.wait"
    now = PythonCalls(
        functions={run: 1, debug: 4_473, wait: 721},
        own=("tokenization.main", "tokenization.combine", wait),
        lines=(
            edge(12, "main", run, 1),
            edge(12, "main", debug, 4_473, direct=False),
            edge(71, "combine", wait, 721),
        ),
    )
    combine = "`combine` at tokenization.py:71 calls `tokenization.wait` 721 times (baseline: 1)"
    assert of_calls(Before({run: 1, debug: 873, wait: 1}), now) == [combine]
    alone = structs.replace(now, lines=now.lines[:2])
    assert of_calls(Before({run: 1, debug: 873, wait: 721}), alone)[0].startswith("`main` at tokenization.py:12 calls")


def test_a_function_that_a_cache_answered_for_has_its_calls():
    now = PythonCalls(functions={"lib.pattern": 180}, lines=(edge(8, "page", "lib.pattern", 180),))
    said = "`page` at tokenization.py:8 calls `lib.pattern` 180 times"
    assert of_calls(Before({"lib.pattern (cached)": 180, "lib.pattern": 3}), now) == [
        f"{said} (baseline: 3; its cache was called 180 times)"
    ]
    assert of_calls(Before({"lib.pattern (cached)": 3, "lib.pattern": 3}), now) == [f"{said} (baseline: 3)"]


def test_a_package_s_public_function_is_named_before_its_private_one():
    now = PythonCalls(
        functions={
            "numpy.lib._split_dispatcher": 2_044,
            "numpy.lib.split": 2_044,
            "tokenization.f.<locals>.<listcomp>": 500,
        },
        lines=(
            edge(9, "f", "numpy.lib._split_dispatcher", 2_044),
            edge(9, "f", "numpy.lib.split", 2_044),
            edge(11, "f", "tokenization.f.<locals>.<listcomp>", 500),
        ),
    )
    assert of_calls(Before({}), now) == [
        "`f` at tokenization.py:9 calls `numpy.lib.split` 2,044 times (baseline: 0); 1 more function (+2,044 calls)"
        " follows from it"
    ]


def test_the_call_that_enters_a_recursion_is_the_cause_and_no_call_inside_it():
    now = PythonCalls(
        functions={"tokenization.encode": 300, "tokenization.is_binary": 10_500},
        own=("tokenization.encode", "tokenization.is_binary"),
        lines=(
            edge(172, "is_binary", "tokenization.is_binary", 10_200),
            edge(90, "encode", "tokenization.is_binary", 300),
        ),
    )
    assert of_calls(Before({"tokenization.encode": 300, "tokenization.is_binary": 105}), now)[0].startswith(
        "`encode` at tokenization.py:90 calls `tokenization.is_binary` 300 times (10,500 in all, baseline: 105)"
    )


def test_the_changed_line_that_calls_a_new_function_comes_before_the_lines_in_it():
    now = PythonCalls(
        functions={"tokenization.load": 1, "tokenization.check": 200, "dict.get": 400},
        own=("tokenization.load", "tokenization.check"),
        lines=(edge(9, "load", "tokenization.check", 200), edge(3, "check", "dict.get", 400)),
    )
    (found,) = causes.of_calls(Before({"tokenization.load": 1}), now, lambda line: True)
    assert found.text.startswith("`load` at tokenization.py:9 calls `tokenization.check` 200 times (baseline: 0)")


def test_what_follows_from_one_line_is_told_once():
    now = PythonCalls(
        functions={"tokenization.convert": 1, "tokenization.one": 500, "list.index": 500, "builtins.len": 1000},
        own=("tokenization.convert", "tokenization.one"),
        lines=(
            edge(20, "convert", "tokenization.one", 500),
            edge(7, "one", "list.index", 500),
            edge(8, "one", "builtins.len", 1000),
        ),
    )
    said = of_calls(Before({"tokenization.convert": 1}), now)
    assert said == [
        "`convert` at tokenization.py:20 calls `tokenization.one` 500 times (baseline: 0); 2 more functions"
        " (+1,500 calls) follow from it, most of them `builtins.len` at tokenization.py:8"
    ]


def passes_on() -> PythonCalls:
    """Return the calls of a function that passes 1,000 calls on, of which 300 are new and from one line."""
    return PythonCalls(
        functions={"tokenization.wrapper": 1000, "tokenization.scope": 300, "builtins.len": 3000},
        own=("tokenization.wrapper", "tokenization.scope", "tokenization.run", "tokenization.checkpoint"),
        lines=(
            edge(5, "run", "tokenization.wrapper", 700),
            edge(7, "checkpoint", "tokenization.wrapper", 300),
            edge(1, "wrapper", "tokenization.scope", 300),
            edge(9, "scope", "builtins.len", 3000),
        ),
    )


def test_a_changed_line_is_the_cause_before_a_function_that_passes_its_calls_on():
    now, before = passes_on(), Before({"tokenization.wrapper": 700})
    assert of_calls(before, now)[0].startswith("`wrapper` at tokenization.py:1 calls `tokenization.scope`")
    # By their share of the calls of `wrapper`, few of the calls that follow from it come from the changed line.
    (cause, *_) = causes.of_calls(before, now, lambda line: line.line == 7)
    assert "`wrapper` at tokenization.py:1" in cause.text
    # The base's lines say that all that are more do.
    known = before._replace(lines=(now.lines[0],))
    (cause,) = causes.of_calls(known, now, lambda line: line.line == 7)
    assert cause.text == (
        "`checkpoint` at tokenization.py:7 calls `tokenization.wrapper` 300 times (1,000 in all, baseline: 700);"
        " 2 more functions (+3,300 calls) follow from it, most of them `builtins.len` at tokenization.py:9"
    )


def test_of_what_follows_from_two_lines_each_has_its_share():
    """pint's first line was said to lead to 54,014 calls more, of 45,010 in all."""
    now = PythonCalls(
        functions={"tokenization.wrapper": 300, "ops.split": 3_000},
        own=("tokenization.total", "tokenization.wrapper"),
        lines=(
            edge(1, "total", "tokenization.wrapper", 200),
            edge(2, "total", "tokenization.wrapper", 100),
            edge(9, "wrapper", "ops.split", 3_000),
        ),
    )
    first, second = of_calls(Before({}), now)
    assert first.endswith("1 more function (+2,000 calls) follows from it: `ops.split` at tokenization.py:9")
    assert second == "`total` at tokenization.py:2 calls `tokenization.wrapper` 100 times (300 in all, baseline: 0)"


def test_a_changed_line_that_few_of_the_calls_follow_from_is_not_the_cause():
    now, before = passes_on(), Before({"tokenization.wrapper": 700})
    few = structs.replace(now, lines=(*now.lines, edge(11, "checkpoint", "builtins.len", 40)))
    (cause, *_) = causes.of_calls(before, few, lambda line: line.line == 11)
    assert "tokenization.py:1 " in cause.text


def test_an_unchanged_line_is_no_further_cause_beside_a_changed_one_where_the_bases_lines_are_unknown():
    """Markdown: a line that made 600 of 901 calls before stood beside the one that makes 599 more."""
    now = PythonCalls(
        functions={"tokenization.offset": 1, "tokenization.inline": 1, "str.format": 1_500},
        own=("tokenization.offset", "tokenization.inline"),
        lines=(edge(118, "offset", "str.format", 599), edge(315, "inline", "str.format", 901)),
    )
    before = Before({"tokenization.offset": 1, "tokenization.inline": 1, "str.format": 901})
    assert len(of_calls(before, now)) == 2
    (cause,) = causes.of_calls(before, now, lambda line: line.line == 118)
    assert "tokenization.py:118 " in cause.text


def test_of_a_line_only_the_calls_count_that_no_function_that_grew_explains():
    """isort: a line of unchanged `Path(...)` stood beside a new function that makes as many."""
    now = PythonCalls(
        functions={"tokenization.skip": 50, "tokenization.check": 50, "pathlib.Path": 800, "str.lower": 32},
        own=("tokenization.skip", "tokenization.check"),
        lines=(
            edge(567, "skip", "pathlib.Path", 400),
            edge(567, "skip", "str.lower", 20, direct=False),
            edge(585, "skip", "tokenization.check", 50),
            edge(585, "skip", "str.lower", 2, direct=False),
            edge(540, "check", "pathlib.Path", 400),
            edge(540, "check", "str.lower", 10, direct=False),
        ),
    )
    (cause,) = of_calls(Before({"tokenization.skip": 50, "pathlib.Path": 400, "str.lower": 20}), now)
    assert cause.startswith("`skip` at tokenization.py:585 calls `tokenization.check` 50 times (baseline: 0)")


def test_an_unchanged_caller_is_no_further_cause_where_callers_that_grew_make_all_of_the_extra_calls():
    """beancount's `get_negative` makes 18,000 positions, as before; `add_position` makes as many more."""
    functions = {"tokenization.add": 18_000, "tokenization.negative": 18_000, "tokenization.Position": 36_300}

    def told(add: int) -> list[str]:
        now = PythonCalls(
            functions={**functions, "tokenization.__init__": 60},
            own=(*functions, "tokenization.__init__"),
            lines=(
                edge(73, "__init__", "tokenization.add", 18_000),
                edge(90, "add", "tokenization.Position", 18_000),
                edge(275, "negative", "tokenization.Position", 18_000),
            ),
        )
        before = {"tokenization.__init__": 60, "tokenization.negative": 18_000, "tokenization.Position": 18_300}
        return of_calls(Before({**before, "tokenization.add": add}), now)

    (first,) = told(0)
    assert first.startswith("`__init__` at tokenization.py:73 calls `tokenization.add` 18,000 times (baseline: 0)")
    assert any(each.startswith("`negative` at ") for each in told(17_900))


def test_one_more_call_of_a_function_is_the_cause_of_all_calls_in_it():
    """python-qrcode: a method calls the one of its base class, once, which goes over all pixels."""
    now = PythonCalls(
        functions={"tokenization.apply": 1, "tokenization.base": 1, "builtins.len": 3000},
        own=("tokenization.apply", "tokenization.base"),
        lines=(edge(14, "apply", "tokenization.base", 1), edge(6, "base", "builtins.len", 3000)),
    )
    assert of_calls(Before({"tokenization.apply": 1}), now) == [
        "`apply` at tokenization.py:14 calls `tokenization.base` once (baseline: 0); 1 more function (+3,000 calls)"
        " follows from it: `builtins.len` at tokenization.py:6"
    ]


def test_a_line_with_a_small_share_of_the_extra_calls_of_builtins_is_no_further_cause():
    now = PythonCalls(
        functions={"tokenization.url": 1, "tokenization.parse": 900, "posixpath.relpath": 900, "builtins.len": 9900},
        own=("tokenization.url", "tokenization.parse"),
        lines=(
            edge(2, "url", "tokenization.parse", 900),
            edge(3, "parse", "builtins.len", 9000),
            edge(7, "url", "posixpath.relpath", 900),
            edge(7, "url", "builtins.len", 900, direct=False),
        ),
    )
    before = Before({"tokenization.url": 1, "posixpath.relpath": 900, "builtins.len": 900})
    assert [each.partition(" calls ")[0] for each in of_calls(before, now)] == ["`url` at tokenization.py:2"]


def test_lines_that_call_as_often_as_before_are_no_cause():
    now = passes_on()
    known = Before({}, lines=(edge(50, "run", "tokenization.wrapper", 650), now.lines[3]))
    assert [(each.line.line, each.calls) for each in known.extra(now.lines)] == [(5, 50), (7, 300), (1, 300)]
    edited = structs.replace(now.lines[0], line=structs.replace(now.lines[0].line, text="wrapper(x)  # hot"))
    assert known.extra([edited]) == [structs.replace(edited, calls=50)]
    moved = structs.replace(now.lines[0], line=line(51, "run"))
    assert [each.calls for each in known.extra([moved, moved])] == [50, 700]
    assert Before().extra(now.lines) == now.lines


def test_a_package_that_calls_has_the_line_that_leads_to_it():
    now = PythonCalls(
        functions={"pandas.core.series.Series.__init__": 300},
        lines=(edge(3, "test_rows", "pandas.core.series.Series.__init__", 300, direct=False),),
    )
    assert of_calls(Before({"pandas.core.series.Series.__init__": 1}), now) == [
        "`test_rows` at tokenization.py:3 leads to `pandas.core.series.Series.__init__` 300 times (baseline: 1)"
    ]


def test_without_lines_the_functions_that_grew_most_are_named_the_projects_own_first():
    now = PythonCalls(functions={"a.own": 20, "b.other": 900, "c.same": 5}, own=("a.own",))
    assert of_calls(Before({"c.same": 5}), now) == [
        "`a.own` is called 20 times (baseline: 0)",
        "`b.other` is called 900 times (baseline: 0)",
    ]


def test_of_functions_that_call_each_other_the_line_with_the_most_extra_calls_below_is_named():
    # pypdf read the header of an object stream again for each object: 1 -> 150 times, 57 numbers each time.
    functions = {"tokenization.get": 304, "tokenization.of_stream": 150, "number": 17_000, "isinstance": 1_700}
    now = PythonCalls(
        functions=functions,
        own=("tokenization.get", "tokenization.of_stream", "tokenization.read", "tokenization.test"),
        lines=(
            edge(1, "test", "tokenization.get", 154),
            edge(2, "get", "tokenization.of_stream", 150),
            edge(3, "of_stream", "tokenization.get", 150),
            edge(4, "of_stream", "number", 8_500),
            edge(5, "of_stream", "number", 8_500),
            edge(6, "read", "isinstance", 270),
            edge(7, "read", "isinstance", 1_430),
        ),
    )
    before = {"tokenization.get": 155, "tokenization.of_stream": 1, "number": 120, "isinstance": 1_540}
    assert of_calls(Before(before), now) == [
        "`get` at tokenization.py:2 calls `tokenization.of_stream` 150 times (baseline: 1); 2 more functions"
        " (+17,029 calls) follow from it, most of them `number` at tokenization.py:4"
    ]


def test_where_the_baseline_has_no_functions_none_has_a_number_of_it():
    now = PythonCalls(functions={"a.f": 20})
    assert of_calls(None, now) == ["`a.f` is called 20 times"]


def test_where_the_baseline_has_no_functions_nothing_follows_from_a_line():
    now = PythonCalls(
        functions={"tokenization.one": 500, "list.index": 500}, lines=(edge(7, "convert", "tokenization.one", 500),)
    )
    assert of_calls(None, now) == ["`convert` at tokenization.py:7 calls `tokenization.one` 500 times"]


def test_no_more_calls_follow_from_a_line_than_there_are_in_all():
    """Another function is called less, so that the whole rises by less than what follows from the line."""
    lines = (edge(7, "read", "tokenization.item", 20), edge(9, "item", "history.check", 200))
    functions = {"tokenization.read": 1, "tokenization.item": 20, "history.check": 200, "history.sort": 0}
    now = PythonCalls(functions=functions, own=("tokenization.read",), lines=lines)
    of_line = "`read` at tokenization.py:7 calls `tokenization.item` 20 times (baseline: 0)"
    base = Before({"tokenization.read": 1, "history.sort": 50})
    for before, follows in ((base, ""), (Before({"tokenization.read": 1}), " (+200 calls)")):
        assert of_calls(before, now)[0] == f"{of_line}; 1 more function{follows} follows from it"


def test_a_function_that_does_not_lead_to_those_that_grew_is_not_said_to():
    """A line of cattrs looks up a generated function, which has no file, and calls it."""
    lines = [
        edge(275, "unstructure", "tokenization.dispatch (cached)", 40),
        edge(275, "unstructure", "fns.identity", 80_000, direct=False),
    ]
    functions = {"tokenization.unstructure": 40, "tokenization.dispatch": 1, "fns.identity": 80_000}
    functions["tokenization.dispatch (cached)"] = 40
    own = ("tokenization.unstructure", "tokenization.dispatch")
    base = Before({name: calls for name, calls in functions.items() if name != "fns.identity"})
    now = PythonCalls(functions=functions, own=own, lines=tuple(lines))
    leads = "`unstructure` at tokenization.py:275 leads to `fns.identity` 80,000 times (baseline: 0)"
    assert of_calls(base, now) == [leads]
    through = structs.replace(now, lines=(*lines, edge(9, "dispatch", "fns.identity", 1)))
    assert (
        "calls `tokenization.dispatch (cached)` 40 times, which leads to `fns.identity`" in of_calls(base, through)[0]
    )


def test_what_runs_where_an_object_dies_is_called_by_no_line():
    remove = "weakref.WeakKeyDictionary.__init__.<locals>.remove"
    now = PythonCalls(
        functions={"tokenization.auto": 100, "tokenization.register": 100, remove: 200},
        own=("tokenization.auto", "tokenization.register"),
        lines=(edge(57, "auto", "tokenization.register", 100), edge(21, "auto", remove, 200)),
    )
    (said,) = of_calls(Before({"tokenization.auto": 100}), now)
    assert said.startswith("`auto` at tokenization.py:57 calls `tokenization.register` 100 times (baseline: 0)")


def test_no_line_makes_more_calls_than_there_are():
    """async-lru: lines are found in a later run, when a leak has grown: 655 of 66."""
    now = PythonCalls(
        functions={"tokenization.run": 1, "asyncio.get_loop": 66},
        own=("tokenization.run",),
        lines=(edge(21, "run", "asyncio.get_loop", 655, direct=False),),
    )
    said = of_calls(Before({"tokenization.run": 1, "asyncio.get_loop": 35}), now)
    assert said == ["`run` at tokenization.py:21 leads to `asyncio.get_loop` 66 times (baseline: 35)"]


def test_where_only_some_calls_have_lines_their_number_is_an_estimate():
    lines = (edge(7, "convert", "tokenization.one", 520), edge(9, "other", "tokenization.one", 80))
    now = PythonCalls(functions={"tokenization.one": 901}, own=("tokenization.one",), lines=lines, looked_up=600)
    said = of_calls(Before({}), now)[0]
    assert "calls `tokenization.one` about 520 times (901 in all, baseline: 0)" in said


def test_a_line_that_makes_few_of_the_calls_is_no_cause_where_only_some_calls_have_lines():
    functions = {"tokenization.scan": 900, "resolver.kind": 150_000}
    lines = (edge(7, "query", "tokenization.scan", 80), edge(9, "kind", "resolver.kind", 2_000))
    now = PythonCalls(functions=functions, own=("resolver.kind",), lines=lines, looked_up=300_000)
    assert of_calls(Before({}), now)[0] == "`resolver.kind` is called 150,000 times (baseline: 0)"
    assert "at tokenization.py:" in of_calls(Before({}), structs.replace(now, looked_up=0))[0]


def test_the_function_that_is_called_most_is_named_the_projects_own_first():
    functions = {"builtins.len": 9_000, "lib.kind": 2_000, "lib.scan": 1_500}
    now = PythonCalls(functions=functions, own=("lib.kind", "lib.scan"))
    assert [each.text for each in causes.most_called(now)] == ["`lib.kind` is called 2,000 times"]
    few = structs.replace(now, functions={**functions, "pkg.parse": 2_000_000})  # a share of 0.1 %
    assert [each.text for each in causes.most_called(few)] == ["`pkg.parse` is called 2,000,000 times"]
    other = structs.replace(now, own=())
    assert [each.text for each in causes.most_called(other)] == ["`builtins.len` is called 9,000 times"]
    assert causes.most_called(PythonCalls(functions={"lib.kind": 999})) == []
    at = structs.replace(now, lines=(edge(3, "step", "lib.kind", 1_000), edge(4, "step", "lib.kind", 999)))
    assert [each.text for each in causes.most_called(at)] == [
        "`step` at tokenization.py:3 calls `lib.kind` 1,000 times"
    ]
    few = structs.replace(now, lines=(edge(4, "step", "lib.kind", 999),))
    assert [each.text for each in causes.most_called(few)] == ["`lib.kind` is called 2,000 times"]


def test_functions_that_grew_by_fewer_calls_than_a_slow_test_needs_are_no_cause():
    now = PythonCalls(functions={"a.f": 1_500})
    assert [each.text for each in causes.that_grew(Before({"a.f": 400}), now)] == [
        "`a.f` is called 1,500 times (baseline: 400)"
    ]
    assert causes.that_grew(Before({"a.f": 501}), now) == []


def test_a_function_that_calls_itself_has_its_line_all_the_same():
    now = PythonCalls(
        functions={"tokenization.again": 50},
        own=("tokenization.again",),
        lines=(edge(4, "again", "tokenization.again", 49),),
    )
    assert "`again` at tokenization.py:4 calls `tokenization.again` 50 times" in of_calls(Before({}), now)[0]


def test_a_loop_is_named_by_its_line():
    now = PythonCalls(
        loops={"tokenization.total": 5000},
        lines=(edge(31, "total", LOOP, 5000),),
    )
    (cause,) = causes.of_loops(Before({"tokenization.total": 2}), now)
    assert cause.text == "the loop in `total` at tokenization.py:31 runs 5,000 times (baseline: 2 in this function)"
    assert cause.line == line(31, "total")


def test_a_function_that_the_baseline_left_out_had_at_most_so_many_calls():
    now = PythonCalls(functions={"a.f": 200, "a.g": 9})
    assert of_calls(Before({}, above=10), now) == ["`a.f` is called 200 times (baseline: at most 10)"]


def test_of_what_a_package_does_the_function_that_the_line_calls_itself_is_named():
    now = PythonCalls(
        functions={"pandas.DataFrame.__getitem__": 10, "builtins.isinstance": 631, "builtins.len": 90},
        lines=(
            edge(7, "means", "pandas.DataFrame.__getitem__", 10),
            edge(7, "means", "builtins.isinstance", 600, direct=False),
            edge(7, "means", "builtins.len", 90, direct=False),
        ),
    )
    assert of_calls(Before({"builtins.isinstance": 259}, above=10), now) == [
        "`means` at tokenization.py:7 calls `pandas.DataFrame.__getitem__` 10 times; 2 more functions (+452 calls)"
        " follow from it"
    ]


def test_of_what_a_line_calls_the_function_is_named_that_may_call_more():
    now = PythonCalls(
        functions={"re.compile": 10, "list.append": 7580, "re._compiler.compile": 10, "m.words.<locals>.<genexpr>": 10},
        own=("m.words.<locals>.<genexpr>",),
        lines=(
            edge(7, "words", "m.words.<locals>.<genexpr>", 10),
            edge(7, "words", "list.append", 10),
            edge(7, "words", "re.compile", 10),
            edge(7, "words", "list.append", 7570, direct=False),
            edge(7, "words", "re._compiler.compile", 10, direct=False),
        ),
    )
    assert of_calls(NOTHING, now) == [
        "`words` at tokenization.py:7 calls `re.compile` 10 times (baseline: 0); 1 more function (+7,580 calls)"
        " follows from it"
    ]


def test_what_a_comprehension_calls_is_of_the_function_around_it():
    inside = CallingLine(line(5, "<genexpr>"), "m.rate", 600, "m.Shop.total.<locals>.<genexpr>")
    now = PythonCalls(
        functions={"m.rate": 600, "builtins.sum": 601},
        own=("m.rate",),
        lines=(edge(5, "total", "builtins.sum", 1), inside),
    )
    (said,) = of_calls(Before({"builtins.sum": 1}), now)
    assert said.startswith("`total` at tokenization.py:5 calls `m.rate` 600 times (baseline: 0)")


def test_a_call_that_was_there_before_says_what_it_leads_to_now_and_lines_of_its_threads_are_left_out():
    now = PythonCalls(
        functions={"pool.map": 1, "threading.Thread.start": 20, "builtins.len": 90},
        own=("tokenization.total",),
        lines=(
            edge(4, "total", "pool.map", 1),
            edge(4, "total", "threading.Thread.start", 20, direct=False),
            CallingLine(line(520, "run", "threading.py"), "builtins.len", 90, "threading.run"),
        ),
    )
    assert of_calls(Before({"pool.map": 1}), now) == [
        "`total` at tokenization.py:4 calls `pool.map` once, which leads to `threading.Thread.start` 20 times"
        " (baseline: 0)"
    ]


def test_of_a_function_that_several_lines_call_the_baseline_is_compared_with_all_its_calls():
    now = PythonCalls(
        functions={"memory.ls": 1, "memory.info": 62, "str.startswith": 362},
        own=("memory.ls", "memory.info"),
        lines=(edge(119, "ls", "str.startswith", 300), edge(143, "info", "str.startswith", 62)),
    )
    assert of_calls(Before({"memory.ls": 1, "memory.info": 62, "str.startswith": 305}), now) == [
        "`ls` at tokenization.py:119 calls `str.startswith` 300 times (362 in all, baseline: 305)",
        "`info` at tokenization.py:143 calls `str.startswith` 62 times (362 in all, baseline: 305)",
    ]


def test_a_line_with_few_of_the_extra_calls_is_not_blamed_for_them():
    now = PythonCalls(
        functions={"builtins.len": 6_007, "httpx.Response.iter_lines": 1, "str.splitlines": 1_000},
        lines=(
            edge(9, "test_lines", "builtins.len", 1),
            edge(9, "test_lines", "httpx.Response.iter_lines", 1),
            edge(9, "test_lines", "builtins.len", 6_006, direct=False),
            edge(9, "test_lines", "str.splitlines", 1_000, direct=False),
        ),
    )
    assert of_calls(Before({"builtins.len": 7, "httpx.Response.iter_lines": 1}), now) == [
        "`test_lines` at tokenization.py:9 calls `httpx.Response.iter_lines` once; 2 more functions (+7,000 calls)"
        " follow from it"
    ]


def test_unchanged_calls_take_no_part_of_the_growth_that_follows_from_a_line() -> None:
    """flake8 and yarl: the stored baseline has the calls of functions, and no lines."""
    inside = line(3, "run")
    now = PythonCalls(
        functions={"logging.Logger.debug": 1_950, "logging.Logger.isEnabledFor": 1_950, "builtins.isinstance": 2_750},
        own=("tokenization.check", "tokenization.run"),
        lines=(
            edge(340, "check", "logging.Logger.debug", 1_800),
            edge(3, "run", "logging.Logger.debug", 150),
            CallingLine(inside, "logging.Logger.isEnabledFor", 1_950, "logging.Logger.debug", False),
            CallingLine(inside, "builtins.isinstance", 1_950, "logging.Logger.debug", False),
            edge(12, "run", "builtins.isinstance", 800, direct=False),
        ),
    )
    before = {"logging.Logger.debug": 150, "logging.Logger.isEnabledFor": 150, "builtins.isinstance": 950}
    assert of_calls(Before(before), now)[0].endswith("; 2 more functions (+3,600 calls) follow from it")


def test_calls_without_a_line_in_a_function_of_the_project_do_not_follow_from_that():
    generated = CallingLine(line(275, "unstructure"), "generated.each", 1, "tokenization.unstructure", True)
    now = PythonCalls(
        functions={"tokenization.dispatch": 2, "generated.each": 61, "fns.identity": 12_000},
        own=("tokenization.dispatch", "tokenization.unstructure"),
        lines=(
            edge(275, "unstructure", "tokenization.dispatch", 2),
            generated,
            edge(275, "unstructure", "fns.identity", 12_000, direct=False),
        ),
    )
    assert of_calls(Before({"tokenization.dispatch": 2}), now) == [
        "`unstructure` at tokenization.py:275 calls `generated.each` 61 times (baseline: 0); 1 more function"
        " (+12,000 calls) follows from it"
    ]
    known = structs.replace(now, lines=(now.lines[0], now.lines[2]))
    assert of_calls(Before({"tokenization.dispatch": 2}), known)[0].startswith(
        "`unstructure` at tokenization.py:275 leads to `fns.identity` 12,000 times (baseline: 0)"
    )
