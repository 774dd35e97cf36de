"""The commands on saved profiles, each as a user calls it."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from pytest_opprof.cli import main
from pytest_opprof.frameworks.files import own_format
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.op_key import CallSite
from pytest_opprof.profile.saved import SavedKernel, SavedOp, SavedProfile
from pytest_opprof.sites.chains import Frame

from ..report.html.read import Page, row

DATA = Path(__file__).parent.parent / "data"
HERE = Environment((("made", "1"),), "cpu", "")
RECORDS = (
    SavedOp("conv1", "Conv2D", "1", 0, 2, 800_000, input_dtypes=("f32",), computation=4e6),
    SavedOp("cast_a", "Cast", "2", 0, 3, 150_000, 50_000, input_dtypes=("f32",), output_dtypes=("f16",)),
    SavedOp("copy", "Copy", "10", 0, 1, 50_000),
)
KERNELS = (SavedKernel("k<int>", "conv1", calls=4, device_ns=800), SavedKernel("copy_kernel", "(unlinked)"))
Run = Callable[..., "tuple[int, str, str]"]


def made(*records: SavedOp, steps: tuple[str, ...] = ("",), **more: object) -> SavedProfile:
    return SavedProfile("made by hand", HERE, records or RECORDS, steps, **more)  # type: ignore[arg-type]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Call opprof in a folder with a profile ``a.json``; return its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    save("a.json", made(kernels=KERNELS))

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main.main(arguments)
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def sited(tmp_path: Path, run: Run) -> str:
    """A profile that knows the lines of some ops."""
    helper, caller = Frame(str(tmp_path / "nets.py"), "as_float", 12), Frame(str(tmp_path / "nets.py"), "forward", 20)
    einops = Frame("/venv/lib/python3.11/site-packages/einops/einops.py", "rearrange", 7)
    save(
        "sited.json",
        made(
            RECORDS[0],
            RECORDS[1]._replace(site=CallSite((helper, caller))),
            RECORDS[1]._replace(name="cast_b", step=1, calls=2, site=CallSite((helper,))),
            RECORDS[1]._replace(device_ns=5_000, site=CallSite((helper, caller), is_backward=True)),
            RECORDS[1]._replace(device_ns=4_000, site=CallSite((einops, caller))),
            RECORDS[1]._replace(device_ns=3_000, site=CallSite(())),
            steps=("1", "2"),
        ),
    )
    return "sited.json"


def save(path: str, trace: SavedProfile) -> None:
    Path(path).write_text(own_format.dump(trace), encoding="utf-8")


class TestShow:
    def test_by_site_there_is_a_row_for_each_op_and_line(self, run: Run, sited: str) -> None:
        code, out, _ = run("show", sited, "--by", "site", "-t", "0", "--format", "csv")
        rows = [(row["op"], row["site"], row["calls"]) for row in csv.DictReader(io.StringIO(out))]
        assert (code, rows) == (
            0,
            [
                ("Conv", "(no line known)", "2"),
                ("Cast", "nets.py:12 in as_float", "5"),
                ("Cast", "nets.py:12 in as_float (backward)", "3"),
                ("Cast", "nets.py:20 in forward via einops/einops.py:7 in rearrange", "3"),
                ("Cast", "(no line of the program)", "3"),
            ],
        )
        code, out, _ = run("show", sited, "--by", "site", "--type", "Cast", "--format", "json")
        assert [row["site"] for row in json.loads(out)["rows"]] == [site for _, site, _ in rows[1:]]
        assert "  nets.py:12 in as_float  " in run("show", sited, "--by", "site", "--type", "Cast")[1]

    def test_the_page_has_the_lines_that_by_site_has(self, run: Run, sited: str) -> None:
        _, out, _ = run("show", sited, "--by", "site", "-t", "0", "--format", "csv")
        lines = [[row["site"], row["op"], row["calls"]] for row in csv.DictReader(io.StringIO(out))]
        assert run("show", sited, "-o", "page.html")[0] == 0
        page = Page(Path("page.html").read_text(encoding="utf-8"))
        assert [cells[:3] for cells in page.tables["lines"][1:]] == lines
        assert row(page, "ops", "Cast")[1] == "14"  # lines are no rows of their own there

    def test_by_dtype_and_site_each_pair_of_dtypes_has_its_lines(self, run: Run, sited: str) -> None:
        double = RECORDS[1]._replace(
            output_dtypes=("f64",), device_ns=9_000, site=CallSite((Frame("nets.py", "as_float", 12),))
        )
        save("both.json", made(double, double._replace(output_dtypes=("f16",))))
        out = run("show", "both.json", "--op", "Cast", "--by", "dtype,site", "-t", "0", "--format", "csv")[1]
        rows = [(row["op"], row["site"], row["calls"]) for row in csv.DictReader(io.StringIO(out))]
        assert rows == [
            ("Cast[float32->float64]", "nets.py:12 in as_float", "3"),
            ("Cast[float32->float16]", "nets.py:12 in as_float", "3"),
        ]
        assert run("show", "a.json", "--by", "dtype,site")[0] == 2

    def test_lines_tell_rows_apart_only_by_site(self, run: Run, sited: str) -> None:
        code, out, _ = run("show", sited, "--by", "none", "-t", "0", "--format", "json")
        rows = [(row["name"], row["calls"], row["site"]) for row in json.loads(out)["rows"]]
        assert (code, rows) == (0, [("conv1", 2, None), ("cast_a", 12, None), ("cast_b", 2, None)])

    def test_a_profile_without_lines_says_which_have_some(self, run: Run) -> None:
        code, out, err = run("show", "a.json", "--by", "site")
        assert (code, out) == (2, "")
        assert "a.json: made by hand: does not tell which lines asked for ops. These do:\n" in err
        assert "with_stack=True" in err

    def test_a_model_is_for_lines_of_profiles_of_onnx_runtime(self, run: Run) -> None:
        assert "--model m.onnx: a model tells only lines" in run("show", "a.json", "--model", "m.onnx")[2]
        code, _, err = run("show", "a.json", "--by", "site", "--model", "m.onnx")
        assert (code, "is for ONNX Runtime's profiles; a.json is a pytest-opprof profile" in err) == (2, True)

    def test_the_default_is_the_three_most_expensive_with_the_totals_above(self, run: Run) -> None:
        code, out, err = run("show", "a.json")
        assert (code, err) == (0, "")
        lines = out.splitlines()
        assert lines[:3] == ["made by hand  [made 1, cpu]", "total device time: 1 ms", "total host time: 50 us"]
        assert [line.split()[0] for line in lines[4:]] == ["#", "---", "0", "1", "2"]
        assert lines[6].split()[:6] == ["0", "800", "us", "80%", "800", "us"]

    def test_what_is_known_of_the_whole_stands_above_the_table(self, run: Run) -> None:
        save(
            "b.json",
            made(RECORDS[0], RECORDS[0]._replace(step=1), steps=("7", "8"), step_ns=(2e6, 3e6), peak_memory=2048),
        )
        lines = run("show", "b.json")[1].splitlines()
        assert lines[3:5] == ["wall time of each of 2 steps: 2 ms to 3 ms", "peak memory: 2 KiB"]
        assert "wall time of the step: 3 ms" in run("show", "b.json", "--steps", "8")[1].splitlines()
        document = json.loads(run("show", "b.json", "--format", "json")[1])
        assert (document["step_ns"], document["peak_memory"]) == ([2_000_000, 3_000_000], 2048)

    def test_what_is_in_no_step_is_told_apart(self, run: Run) -> None:
        save("b.json", made(RECORDS[0], RECORDS[1]._replace(step=1), steps=("", "outside")))
        lines = run("show", "b.json")[1].splitlines()
        assert lines[1:4:2] == ["total device time: 950 us", "device time outside of every step: 150 us"]
        assert run("check", "b.json", "--budget", "device_time=800us", "--budget", "Cast=0")[0] == 0

    def test_json_has_the_published_keys(self, run: Run) -> None:
        document = json.loads(run("show", "a.json", "--by", "none", "-t", "1", "--format", "json")[1])
        assert (document["source"], document["device_time_ns"], document["host_time_ns"]) == (
            "made by hand",
            10**6,
            50_000,
        )
        (row,) = document["rows"]
        assert row.keys() >= {
            "name", "op", "type", "id", "calls", "time_ns", "share", "cumulative_ns", "computation", "flops", "memory",
            "bandwidth", "input_shapes", "output_shapes",
        }  # fmt: skip
        assert (row["name"], row["op"], row["time_ns"], row["share"], row["memory"]) == (
            "conv1",
            "Conv",
            800_000,
            0.8,
            None,
        )

    def test_csv_is_a_table_of_everything(self, run: Run) -> None:
        rows = list(csv.DictReader(run("show", "a.json", "--by", "none", "-t0", "--format", "csv")[1].splitlines()))
        assert [row["name"] for row in rows] == ["conv1", "cast_a", "copy"]

    @pytest.mark.parametrize(
        ("options", "names"),
        [
            (["--name", "^c.n"], ["conv1"]),
            (["--type", "Cast", "--type", "Copy"], ["cast_a", "copy"]),
            (["--input-dtype", "float32"], ["conv1", "cast_a"]),
            (["--min-time", "100us", "--max-time", "0.2 ms"], ["cast_a"]),
            (["--side", "host"], ["cast_a"]),
            (["--order-by", "+time"], ["copy", "cast_a", "conv1"]),
            (["--order-by", "calls", "-t", "1"], ["cast_a"]),
            (["--side", "both"], ["conv1", "cast_a", "copy", "cast_a"]),
        ],
    )
    def test_options_select_and_order(self, run: Run, options: list[str], names: list[str]) -> None:
        out = run("show", "a.json", "--only-ops", *options)[1]
        assert [line.split()[0] for line in out.splitlines()] == names

    def test_aggregates(self, run: Run) -> None:
        document = json.loads(run("show", "a.json", "--aggregate", "mean", "--format", "json")[1])
        (row,) = document["rows"]
        assert (row["type"], row["calls"], row["time_ns"]) == ("all", 6, 10**6 / 6)

    def test_copies_are_timed_when_asked_for(self, run: Run) -> None:
        assert "copies: 1, 50 us, 50 us each" in run("show", "a.json", "--copy-time")[1]
        assert "copies: none" in run("show", "a.json", "--copy-time", "--name", "conv")[1]
        for options in (["--format", "csv"], ["--only-ops"]):
            assert run("show", "a.json", "--copy-time", *options)[2] == "opprof: a.json: copies: 1, 50 us, 50 us each\n"
        document = json.loads(run("show", "a.json", "--copy-time", "--format", "json")[1])
        assert document["copy_time"] == {"calls": 1, "total_ns": 50_000, "launch_ns": None}

    def test_kernels_are_listed_with_the_op_that_launched_them(self, run: Run) -> None:
        lines = run("show", "a.json", "--kernels")[1].splitlines()
        assert lines[2].split() == ["k<int>", "conv1", "4", "800", "ns", "200", "ns"]
        (kernel,) = json.loads(run("show", "a.json", "--kernels", "--format", "json", "-t1")[1])["kernels"]
        assert (kernel["kernel"], kernel["total_ns"], kernel["average_ns"]) == ("k<int>", 800, 200)

    @pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
    def test_a_terminal_that_lacks_a_character_gets_its_code_point(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, encoding: str
    ) -> None:
        save("b.json", made(RECORDS[0]._replace(name="注意力_" + "x" * 50)))
        for stream in ("stdout", "stderr"):
            monkeypatch.setattr(sys, stream, io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True))
        assert main.main(["show", "b.json", "--by", "none"]) == 0
        printed = sys.stdout.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]
        assert "\\u6ce8\\u610f\\u529b_x" in printed
        assert "x\\u2026" in printed
        assert main.main(["show", "注"]) == 2
        assert b"\\u6ce8: there is no such file" in sys.stderr.buffer.getvalue()  # type: ignore[attr-defined]

    def test_steps_can_be_chosen(self, run: Run) -> None:
        save("b.json", made(RECORDS[0], RECORDS[0]._replace(step=1, calls=5), steps=("7", "8")))
        assert json.loads(run("show", "b.json", "--steps", "8", "--format", "json")[1])["rows"][0]["calls"] == 5
        assert json.loads(run("show", "b.json", "--format", "json")[1])["rows"][0]["calls"] == 7

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--order-by", "tiem"], "'tiem' is no column: did you mean 'time'?"),
            (["--name", "("], "--name '(' is no regular expression: "),
            (["--min-time", "5 MiB"], "--min-time is '5 MiB'; write a time with its unit (ns, us, ms, s)"),
            (["--max-time", "0.0002"], "--max-time is '0.0002'; write a time with its unit (ns, us, ms, s)"),
            (["--steps", "3"], "this profile has no step 3"),
            (["--time", "kern"], "does not tell when an op's first kernel began"),
            (["--rank", "x"], "--rank 'x': write a number, or all"),
            (["--rank", "3"], "has no rank 3; it holds"),
            (["--source", "tourch"], "unknown format 'tourch': did you mean 'torch'?"),
        ],
    )
    def test_a_question_without_an_answer_is_one_error(self, run: Run, options: list[str], message: str) -> None:
        code, out, err = run("show", "a.json", *options)
        assert (code, out) == (2, "")
        assert message in err
        assert len(err.splitlines()) <= 2

    def test_an_empty_profile_is_an_error_not_an_empty_table(self, run: Run) -> None:
        save("b.json", SavedProfile("made", HERE, ()))
        assert run("show", "b.json") == (2, "", "opprof: b.json: holds no op: nothing ran while it was recorded, or the"
                                         " recording was lost\n")  # fmt: skip

    def test_remarks_of_the_reader_are_said_beside_the_answer(self, run: Run) -> None:
        save("b.json", made(remarks=("the sums\x1b[2J differ",)))
        code, out, err = run("show", "b.json")
        assert (code, err) == (0, "opprof: b.json: the sums\\x1b[2J differ\n")
        assert "Conv2D" in out

    def test_a_folder_with_several_profiles_asks_which(self, run: Run) -> None:
        save("b.json", made())
        code, out, err = run("show", ".")
        assert (code, out) == (2, "")
        assert err.splitlines()[1:] == ["  a.json", "  b.json"]
        assert run("show", ".", "--rank", "all")[1].count("total device time") == 2
        assert len(json.loads(run("show", ".", "--rank", "all", "--format", "json")[1])["ranks"]) == 2

    def test_each_row_and_table_of_several_profiles_says_whose_it_is(self, run: Run) -> None:
        save("b.json", made(RECORDS[1]))
        out = run("show", ".", "--rank", "all", "--by", "none", "--format", "csv")[1]
        rows = list(csv.DictReader(out.splitlines()))
        assert [(row["profile"], row["rank"], row["name"]) for row in rows] == [
            ("a.json", "", "conv1"), ("a.json", "", "cast_a"), ("a.json", "", "copy"), ("b.json", "", "cast_a"),
        ]  # fmt: skip
        assert "\na.json\n" in run("show", ".", "--rank", "all")[1]
        ranks = json.loads(run("show", ".", "--rank", "all", "--format", "json")[1])["ranks"]
        assert [(each["profile"], each["rank"]) for each in ranks] == [("a.json", None), ("b.json", None)]

    def test_csv_of_both_sides_is_one_table(self, run: Run) -> None:
        rows = list(csv.DictReader(run("show", "a.json", "--side", "both", "--format", "csv")[1].splitlines()))
        assert [(row["side"], row["time_ns"]) for row in rows][-2:] == [("device", "50000"), ("host", "50000")]

    def test_only_ops_in_every_format(self, run: Run) -> None:
        assert run("show", "a.json", "--only-ops", "-t", "1")[1] == "conv1 Conv2D 1\n"
        assert run("show", "a.json", "--only-ops", "-t", "1", "--format", "csv")[1] == "name,type,id\nconv1,Conv2D,1\n"
        (row,) = json.loads(run("show", "a.json", "--only-ops", "-t", "1", "--format", "json")[1])["rows"]
        assert row == {"name": "conv1", "type": "Conv2D", "id": "1"}
        assert "| conv1  | Conv2D |" in run("show", "a.json", "--only-ops", "-t", "1", "--format", "markdown")[1]

    def test_a_filter_is_summed_above_the_table(self, run: Run) -> None:
        assert "selected: 3 calls, 150 us (15%)" in run("show", "a.json", "--type", "Cast", "-t", "1")[1].splitlines()
        assert "selected" not in run("show", "a.json")[1]

    @pytest.mark.parametrize("format", ["table", "json", "csv"])
    def test_an_answer_without_rows_says_what_is_there(self, run: Run, format: str) -> None:
        code, out, err = run("show", "a.json", "--type", "MatMul", "--format", format)
        assert (code, out) == (2, "")
        assert err.splitlines()[-1] == "opprof: --op MatMul: no op of the device matches. There are Conv, Cast, Copy."
        assert run("show", "a.json", "--only-ops", "--type", "MatMul")[:2] == (2, "")
        assert "or 'Cast'?" in run("show", "a.json", "--op", "Cost")[2]

    def test_people_read_how_many_rows_are_left_out_and_programs_get_rows_alone(self, run: Run) -> None:
        save("b.json", made(*(SavedOp(f"op{n}", "Cast", device_ns=5) for n in range(12))))
        single = ("show", "b.json", "--by", "none")
        assert run(*single)[1].splitlines()[-1] == "... and 2 more ops (-t 0 shows them)"
        markdown = run(*single, "-t", "11", "--format", "markdown")[1].splitlines()
        assert markdown[-2:] == ["", "... and 1 more op (-t 0 shows them)"]
        for all_rows in (["-t", "0"], ["-t", "12"], ["--format", "json"], ["--format", "csv", "-t", "3"]):
            assert "more op" not in run(*single, *all_rows)[1]
        out, err = run("show", "b.json", "--only-ops")[1:]
        assert (len(out.splitlines()), err) == (10, "opprof: b.json: ... and 2 more ops (-t 0 shows them)\n")

    def test_csv_has_all_rows(self, run: Run) -> None:
        save("b.json", made(*(SavedOp(f"op{n}", "Cast", device_ns=5, place=f"stream {n % 2}") for n in range(9))))
        each = ("show", "b.json", "--by", "none", "--format", "csv")
        assert [len(run(*each, *more)[1].splitlines()) for more in ([], ["-t", "0"], ["-t", "1"])] == [10, 10, 2]

    def test_rows_of_places(self, run: Run) -> None:
        save("b.json", made(*(SavedOp(f"op{n}", "Cast", device_ns=5, place=f"stream {n % 2}") for n in range(9))))
        rows = list(csv.DictReader(run("show", "b.json", "--by", "place", "--format", "csv")[1].splitlines()))
        assert [(row["place"], row["calls"], row["time_ns"]) for row in rows] == [
            ("stream 0", "5", "25"),
            ("stream 1", "4", "20"),
        ]

    def test_a_misspelt_filter_gets_the_nearest_name(self, run: Run) -> None:
        assert "--type: unknown op 'Csat': did you mean 'Cast'?" in run("show", "a.json", "--type", "Csat")[2]
        assert (
            "unknown dtype 'flaot32': did you mean 'float32'?" in run("show", "a.json", "--input-dtype", "flaot32")[2]
        )
        assert "Input dtypes: float32." in run("show", "a.json", "--input-dtype", "bf16")[1]

    def test_what_the_source_cannot_tell_is_not_said_to_be_absent(self, run: Run) -> None:
        save("b.json", made(SavedOp("k", "kernel", device_ns=5), untold=("*",)))
        save("c.json", made(untold=("Cast",)))
        for file in ("b.json", "c.json"):
            assert "does not tell Cast from other ops, so there may be more" in run("show", file, "--type", "Cast")[2]
            assert run("show", file, "--type", "kernel" if file == "b.json" else "Conv")[2] == ""

    def test_the_list_of_kernels_takes_no_filter_in_silence(self, run: Run) -> None:
        assert run("show", "a.json", "--kernels", "--name", "k<", "--format", "csv")[1].splitlines() == [
            "kernel,launched_by,calls,total_ns,average_ns,place",
            "k<int>,conv1,4,800,200,",
        ]
        code, _, err = run("show", "a.json", "--kernels", "--by", "op", "--min-time", "1us", "--side", "host")
        assert (code, "not --aggregate-by, --min-time, --side\n" in err) == (2, True)

    def test_the_kernels_of_an_op_are_asked_for_by_its_canonical_or_raw_name(self, run: Run) -> None:
        for op in ("Conv", "Conv2D", "conv1"):
            code, out, _ = run("show", "a.json", "--kernels", "--op", op, "--format", "csv")
            assert (code, [line.partition(",")[0] for line in out.splitlines()]) == (0, ["kernel", "k<int>"])
        code, out, err = run("show", "a.json", "--kernels", "--op", "Cast", "--name", "k")
        assert (code, out) == (2, "")
        assert "--name 'k', --op Cast: no kernel matches. Ops that launched kernels are Conv, (unlinked)" in err

    def test_without_a_choice_of_ops_there_is_a_row_for_each_canonical_op(self, run: Run) -> None:
        save("b.json", made(*RECORDS, RECORDS[0]._replace(name="conv2", device_ns=100_000)))

        def rows(*options: str) -> list[tuple[str, str | None, int]]:
            document = json.loads(run("show", "b.json", "-t", "0", "--format", "json", *options)[1])
            return [(row["op"], row["name"], row["calls"]) for row in document["rows"]]

        assert rows() == [("Conv", None, 4), ("Cast", None, 3), ("Copy", None, 1)] == rows("--order-by", "time")
        for options in (["--by", "none", "--type", "Conv"], ["--type", "Conv"], ["--name", "conv"]):
            assert rows(*options) == [("Conv", "conv1", 2), ("Conv", "conv2", 2)]
        assert rows("--type", "Conv", "--by", "op") == [("Conv", None, 4)]
        code, _, err = run("show", "b.json", "--by", "none", "--aggregate", "max")
        assert (code, "--aggregate max: single ops are not aggregated" in err) == (2, True)

    @pytest.mark.parametrize("format", ["table", "json", "csv"])
    def test_a_name_that_no_kernel_has_is_an_error_with_those_that_are_there(self, run: Run, format: str) -> None:
        code, out, err = run("show", "a.json", "--kernels", "--name", "gemm", "--format", format)
        assert (code, out) == (2, "")
        assert err == "opprof: --name 'gemm': no kernel matches. There are k<int>, copy_kernel\n"
        save("b.json", made(kernels=(SavedKernel("gemm", "conv1"),)))
        code, out, err = run("show", ".", "--rank", "all", "--kernels", "--name", "gemm", "--format", format)
        assert (code, "conv1" in out) == (0, True)
        assert "--name 'gemm': no kernel matches. There are k<int>, copy_kernel" in (out if format == "table" else err)

    def test_steps_without_a_kernel_are_no_empty_table(self, run: Run) -> None:
        save("b.json", made(RECORDS[0], RECORDS[0]._replace(step=1), steps=("7", "8"), kernels=KERNELS))
        assert run("show", "b.json", "--kernels", "--steps", "7")[0] == 0
        assert run("show", "b.json", "--kernels", "--steps", "8") == (
            2,
            "",
            "opprof: no kernel ran in the steps asked for\n",
        )

    def test_names_from_a_file_cannot_move_the_cursor(self, run: Run) -> None:
        save(
            "b.json", made(RECORDS[0]._replace(name="x\x1b[2J\r", type="\x07"), kernels=(SavedKernel("\x1b", "\x1b"),))
        )
        for options in (
            [],
            ["--only-ops"],
            ["--format", "csv"],
            ["--format", "json"],
            ["--format", "markdown"],
            ["--kernels"],
        ):
            out = run("show", "b.json", *options)[1]
            assert all(line.isprintable() for line in out.splitlines())


SLOWER = tuple(record._replace(device_ns=2 * (record.device_ns or 0)) for record in RECORDS)


class TestDiff:
    def test_the_same_is_no_finding(self, run: Run) -> None:
        code, out, err = run("diff", "a.json", "a.json")
        assert (code, err) == (0, "")
        assert out.splitlines()[-1] == "verdict: ok"

    def test_more_calls_and_new_ops_are_findings_with_the_op_named(self, run: Run) -> None:
        save("b.json", made(RECORDS[0], RECORDS[1]._replace(calls=9), SavedOp("m", "MatMul", device_ns=1)))
        code, out, _ = run("diff", "a.json", "b.json")
        assert code == 1
        assert "  Cast: 9 calls (before: 3)" in out.splitlines()
        assert "  MatMul: 1 call (before: 0)" in out.splitlines()
        assert run("diff", "b.json", "a.json")[0] == 1

    @pytest.mark.parametrize("fact", ["peak_memory", "host_peak_memory"])
    def test_facts_of_the_whole_are_compared_too(self, run: Run, fact: str) -> None:
        save("b.json", made(**{fact: 2**20}))
        save("c.json", made(**{fact: 500 * 2**20}))
        code, out, _ = run("diff", "b.json", "c.json")
        said = "peak memory of the host" if fact.startswith("host") else "peak memory"
        assert (code, f"  {said}: 500 MiB (before: 1 MiB)" in out.splitlines()) == (1, True)
        assert out.splitlines()[-1] == "verdict: more memory"
        code, out, _ = run("diff", "c.json", "b.json")
        assert (code, out.splitlines()[-1]) == (0, "verdict: less memory")
        assert run("diff", "a.json", "c.json")[0] == 0  # what only one side knows is not compared

    def test_fewer_calls_that_do_more_are_worse(self, run: Run) -> None:
        save("b.json", made(RECORDS[0]._replace(calls=1, computation=126e6), *RECORDS[1:]))
        code, out, _ = run("diff", "a.json", "b.json")
        assert (code, "  Conv: FLOPs 126 MFLOP (before: 4 MFLOP), x31.5" in out.splitlines()) == (1, True)

    def test_slower_is_judged_by_tolerance_and_floor(self, run: Run) -> None:
        save("b.json", made(*SLOWER))
        assert run("diff", "a.json", "b.json")[0] == 1
        assert run("diff", "a.json", "b.json", "--tolerance", "150%")[0] == 0
        assert run("diff", "a.json", "b.json", "--floor", "2 ms")[0] == 0
        assert run("diff", "b.json", "a.json")[0] == 0

    def test_an_op_split_over_places_is_summed(self, run: Run) -> None:
        half = RECORDS[0]._replace(calls=1, device_ns=400_000, computation=2e6)
        save("b.json", made(half._replace(place="AI_CORE"), half._replace(place="MIX_AIC"), *RECORDS[1:]))
        assert run("diff", "a.json", "b.json")[0] == 0

    def test_a_cut_profile_can_be_worse_but_not_ok_and_is_nothing_to_be_worse_than(self, run: Run) -> None:
        Path("cut.csv").write_text("Name,Type,Duration(us)\nc,Cast,1\nc,Cast,2\nc,Cast,3")
        Path("more.csv").write_text("Name,Type,Duration(us)\nc,Cast,1\nc,Cast,2\nc,Cast,3\n")
        Path("less.csv").write_text("Name,Type,Duration(us)\nc,Cast,1\n")
        assert run("diff", "less.csv", "cut.csv", "--partial")[0] == 1
        for pair in (("more.csv", "cut.csv"), ("cut.csv", "cut.csv"), ("cut.csv", "more.csv")):
            code, _, err = run("diff", *pair, "--partial")
            assert (code, "a file was read in part, so opprof cannot tell" in err) == (2, True)

    def test_json_has_a_row_an_op(self, run: Run) -> None:
        save("b.json", made(*SLOWER))
        code, out, _ = run("diff", "a.json", "b.json", "--format", "json", "--by", "shape")
        document = json.loads(out)
        assert (code, document["verdict"]) == (1, "slower")
        assert {row["op"]: (row["base_ns"], row["now_ns"]) for row in document["rows"]}["Cast f32->f16"] == (
            150_000,
            300_000,
        )

    def test_two_steps_of_one_profile(self, run: Run) -> None:
        save("b.json", made(RECORDS[0], RECORDS[0]._replace(step=1, calls=5), steps=("7", "8")))
        code, out, _ = run("diff", "b.json", "b.json", "--base-steps", "7", "--steps", "8")
        assert (code, "Conv: 5 calls (before: 2)" in out) == (1, True)

    def test_calls_are_all_there_is_to_compare_where_neither_has_times(self, run: Run) -> None:
        untimed = [record._replace(device_ns=None, host_ns=None) for record in RECORDS]
        save("b.json", made(*untimed))
        code, out, err = run("diff", "b.json", "b.json")
        assert (code, err) == (0, "")
        assert out.splitlines()[-2:] == ["verdict: ok", "(the verdict is about calls: neither profile has times)"]
        save("c.json", made(*untimed[:2], untimed[2]._replace(calls=7)))
        assert run("diff", "b.json", "c.json")[0] == 1

    @pytest.mark.parametrize(
        ("before", "after", "why"),
        [
            (
                5,
                3,
                "the fastest of 5 steps cannot be compared with the fastest of 3; choose equally many with --base-steps"
                " and --steps",
            ),
            (5, 0, "the profile after has no times"),
            (0, 3, "the profile before has no times"),
        ],
    )
    def test_times_that_were_not_compared_are_never_ok(self, run: Run, before: int, after: int, why: str) -> None:
        for path, steps, slower in (("b.json", before, 1), ("c.json", after, 3)):
            records = [
                record._replace(step=step, device_ns=(record.device_ns or 0) * slower if steps else None, host_ns=None)
                for step in range(steps or 1)
                for record in RECORDS
            ]
            save(path, made(*records, steps=tuple(map(str, range(steps or 1)))))
        code, out, err = run("diff", "b.json", "c.json")
        assert (code, why in err, " ok" in out) == (2, True, False)
        assert "verdict: not compared" in out.splitlines()
        assert f"op times not judged: {why}" in out.splitlines()
        document = json.loads(run("diff", "b.json", "c.json", "--format", "json")[1])
        assert document["times_not_judged"] == why
        assert {document["verdict"], document["total"]["verdict"], *(row["verdict"] for row in document["rows"])} == {
            "not compared"
        }
        save("more.json", made(*RECORDS[:2], RECORDS[2]._replace(calls=7)))
        assert run("diff", "b.json", "more.json")[0] == 1

    def test_as_many_steps_of_each_are_compared(self, run: Run) -> None:
        for path, steps, slower in (("b.json", 5, 1), ("c.json", 3, 3)):
            records = [RECORDS[0]._replace(step=step, device_ns=800_000 * slower) for step in range(steps)]
            save(path, made(*records, steps=tuple(map(str, range(steps)))))
        assert run("diff", "b.json", "c.json", "--base-steps", "0-2")[0] == 1

    def test_an_op_that_has_a_time_on_one_side_only_is_not_compared(self, run: Run) -> None:
        save("b.json", made(RECORDS[0], RECORDS[1]._replace(device_ns=None), RECORDS[2]))
        document = json.loads(run("diff", "a.json", "b.json", "--format", "json")[1])
        assert {row["op"]: row["verdict"] for row in document["rows"]}["Cast"] == "not compared"

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--tolerance", "10"], "--tolerance is '10'; write a percentage such as '10%'"),
            (["--floor", "10"], "--floor is '10'; write a time with its unit (ns, us, ms, s), such as '5 us'"),
            (["--steps", "9"], "has no step 9"),
        ],
    )
    def test_bad_options_are_errors(self, run: Run, options: list[str], message: str) -> None:
        code, _, err = run("diff", "a.json", "a.json", *options)
        assert code == 2
        assert message in err


class TestCheck:
    def test_a_kept_budget_is_ok(self, run: Run) -> None:
        code, out, err = run(
            "check", "a.json", "--budget", "Cast=3", "--budget", "device_time=1ms", "--budget", "top=Conv2D"
        )
        assert (code, err) == (0, "")
        assert out == "a.json: within its budget (Cast=3, device_time=1ms, top=Conv2D); 6 calls of 3 ops\n"

    def test_a_broken_one_is_a_finding_that_names_the_op(self, run: Run) -> None:
        code, out, _ = run("check", "a.json", "--budget", "Cast=2", "--budget", "Conv*=0")
        assert code == 1
        assert out.splitlines()[:3] == [
            "op budget exceeded: a.json  [made 1, cpu]",
            "  Cast: 3 calls (budget: 2)",
            "  Conv*: 2 calls (budget: 0)",
        ]

    @pytest.mark.parametrize(
        ("budget", "message"),
        [
            ("Csat=1", "unknown op 'Csat': did you mean 'Cast'?"),
            ("Cast", "write OP=LIMIT"),
            ("Cast=many", "write a number"),
            ("host_time=1s", "made by hand does not have: its ops have 50 us of host time, without the time between"),
            ("peak_memory=1GiB", "cannot be checked"),
            ("allocations=0", "cannot be checked"),
        ],
    )
    def test_what_cannot_be_judged_is_an_error_not_a_pass(self, run: Run, budget: str, message: str) -> None:
        code, out, err = run("check", "a.json", "--budget", budget)
        assert (code, out) == (2, "")
        assert message in err

    @pytest.mark.parametrize(
        ("budget", "message"),
        [
            (
                "Concat=1KiB",
                "bytes moved by Concat (1 KiB) cannot be checked: made does not report the bytes of aten::cat",
            ),
            (
                "bytes=1GiB",
                "on bytes moved (1 GiB) cannot be checked: made does not report the bytes of aten::cat here",
            ),
            ("Concat[float64]=0", "'Concat[float64]' cannot be counted: made does not tell the dtypes of Concat"),
            ("Cast=1KiB", ""),
            ("*[float64]=0", ""),
        ],
    )
    def test_an_amount_that_nothing_tells_is_not_taken_for_none(self, run: Run, budget: str, message: str) -> None:
        cat = SavedOp("cat", "aten::cat", input_dtypes=("", ""), input_shapes=((8, 4), (8, 4)), op="Concat")
        cast = RECORDS[1]._replace(memory=512)
        save("b.json", made(cat, cast))
        code, _, err = run("check", "b.json", "--budget", budget)
        assert (code, message in err) == (2 if message else 0, True)

    @pytest.mark.parametrize(
        ("known", "budget", "message"),
        [
            (
                {"host_peak_memory": 8},
                "peak_memory=1KiB",
                "the recorded memory is the host's; limit it with host_memory",
            ),
            ({"host_peak_memory": 8}, "host_memory=1KiB", ""),
            ({"host_peak_memory": 4096}, "host_memory=1KiB", "4 KiB (budget: 1 KiB)"),
            ({"host_peak_memory": 8, "peak_memory": 4096}, "peak_memory=1KiB", "4 KiB (budget: 1 KiB)"),
            ({"peak_memory": 8}, "peak_memory=1KiB", ""),
            (
                {"peak_memory": 8},
                "host_memory=1KiB",
                "peak_memory limits the memory of other ops",
            ),
        ],
    )
    def test_memory_of_the_host_and_of_the_device_are_two_facts(
        self, run: Run, known: dict[str, int], budget: str, message: str
    ) -> None:
        save("b.json", made(**known))
        code, out, err = run("check", "b.json", "--budget", budget)
        assert (code, message in out + err) == (0 if not message else 1 if "budget:" in message else 2, True)

    def test_a_cut_profile_can_exceed_its_budget_but_not_keep_it(self, run: Run) -> None:
        Path("cut.csv").write_text("Name,Type,Duration(us)\nc,Cast,1\nc,Cast,2\nc,Cast,3")
        code, out, err = run("check", "cut.csv", "--budget", "Cast=2")
        assert (code, out, "is cut in row 4" in err) == (2, "", True)
        code, out, err = run("check", "cut.csv", "--budget", "Cast=2", "--partial")
        assert (code, "what could be read of it does not exceed its budget" in out) == (2, True)
        assert err == "opprof: cut.csv: was read in part, so opprof cannot tell whether it is within its budget\n"
        code, out, err = run("check", "cut.csv", "--budget", "Cast=1", "--partial")
        assert (code, err) == (1, "")
        assert "Cast: 2 calls (budget: 1)" in out

    def test_what_the_reader_remarks_stands_with_the_verdict(self, run: Run) -> None:
        save("b.json", made(remarks=("MatMul: 3 calls, but op_statistic has 4",)))
        for limit, code in (("Cast=3", 0), ("Cast=2", 1)):
            done = run("check", "b.json", "--budget", limit)
            assert (done[0], done[1].splitlines()[-1]) == (code, "note: MatMul: 3 calls, but op_statistic has 4")
        assert "op_statistic has 4" in run("check", "b.json", "--budget", "peak_memory=1MiB")[2]

    def test_a_limit_on_host_time_is_one_on_the_wall_time_of_steps(self, run: Run) -> None:
        save("b.json", made(RECORDS[0], RECORDS[1]._replace(step=1), steps=("1", "2"), step_ns=(2e6, 3e6)))
        assert run("check", "b.json", "--budget", "host_time=2ms")[0] == 0
        assert run("check", "b.json", "--budget", "host_time=1ms")[0] == 1

    def test_communication_has_calls_to_limit_but_no_time(self, run: Run) -> None:
        save("b.json", made(*RECORDS, SavedOp("r", "ncclDevKernel_AllReduce_Sum", calls=4, device_ns=9)))
        assert run("check", "b.json", "--budget", "nccl*AllReduce*=4", "--budget", "device_time=1ms")[0] == 0
        assert run("check", "b.json", "--budget", "nccl*AllReduce*=3")[0] == 1
        code, _, err = run("check", "b.json", "--budget", "nccl*=1s")
        assert (code, "Limit its calls: nccl*=N" in err) == (2, True)

    def test_guessed_types_are_judged_only_when_allowed(self, run: Run) -> None:
        save("b.json", made(inferred_types=True))
        code, _, err = run("check", "b.json", "--budget", "Cast=3")
        assert (code, "--allow-inferred" in err) == (2, True)
        assert run("check", "b.json", "--budget", "Cast=3", "--allow-inferred")[0] == 0

    def test_launches_that_are_no_ops_can_be_limited(self, run: Run) -> None:
        launches = (SavedOp("cudaLaunchKernel", "cudaLaunchKernel", calls=4),)
        save("b.json", made(launches=launches))
        for limit, code in (("launches=4", 0), ("launches=3", 1), ("cudaLaunchKernel=3", 1), ("calls=6", 0)):
            assert run("check", "b.json", "--budget", limit)[0] == code
        assert run("check", "a.json", "--budget", "launches=4")[0] == 2
        assert "cudaLaunchKernel" not in run("show", "b.json", "-t0")[1]

    def test_every_rank_is_judged(self, run: Run) -> None:
        save("b.json", made(RECORDS[1]._replace(calls=9)))
        assert run("check", ".", "--rank", "all", "--budget", "Cast=3")[0] == 1


class TestConvert:
    def test_to_our_own_format_and_back(self, run: Run) -> None:
        assert run("convert", "a.json", "-o", "b.json") == (0, "wrote b.json: 3 records in opprof's own format\n", "")
        assert json.loads(Path("a.json").read_text()) == json.loads(Path("b.json").read_text())

    def test_to_a_chrome_trace_on_the_time_axis_of_the_profile(self, run: Run) -> None:
        recording = str(DATA / "mindspore-cpu" / "2.10.0-py3.11" / "graph" / "forward")
        for name in ("b.trace.json", "b.trace.json.gz"):
            code, out, err = run("convert", recording, "-o", name)
            assert (code, out, "laid end to end" in err) == (0, f"wrote {name}: a Chrome trace\n", False)
        content = gzip.decompress(Path("b.trace.json.gz").read_bytes())
        assert content == Path("b.trace.json").read_bytes()
        bars = [event for event in json.loads(content)["traceEvents"] if event["ph"] == "X"]
        gaps = [later["ts"] - bar["ts"] - bar["dur"] for bar, later in pairwise(bars)]
        assert min(gaps) >= -0.001  # one thread: one call after the other
        assert max(gaps) > 1  # and time between them

    def test_steps_choose_what_of_the_time_axis_is_written(self, run: Run) -> None:
        recording = str(DATA / "jax-cpu" / "train_step.trace.json.gz")
        run("convert", recording, "-o", "all.trace.json")
        run("convert", recording, "-o", "one.trace.json", "--steps", "train 3")
        every, one = (
            [e["name"] for e in json.loads(Path(path).read_text())["traceEvents"] if e.get("cat") == "step"]
            for path in ("all.trace.json", "one.trace.json")
        )
        assert (len(every), one) == (5, ["step train 3"])

    def test_the_chrome_trace_has_the_memory_in_use(self, run: Run) -> None:
        path = DATA / "torch-cpu" / "train_step.pt.trace.json.gz"
        run("convert", str(path), "-o", "b.trace.json")
        events = json.loads(Path("b.trace.json").read_text())["traceEvents"]
        sizes = [event["args"]["bytes"] for event in events if event["ph"] == "C"]
        ends = [event["ts"] + event["dur"] for event in events if event["ph"] == "X"]
        assert all(0 <= event["ts"] <= max(ends) for event in events if event["ph"] == "C")
        told = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        totals = [event["args"]["Total Allocated"] for event in told if event["name"] == "[memory]"]
        assert max(sizes) == max(totals)
        assert len(sizes) > 0.9 * len(totals)  # those before the first op and after the last have no place on the axis

    def test_to_a_chrome_trace_of_sums_where_nobody_knows_when_anything_ran(self, run: Run) -> None:
        err = run("convert", "a.json", "-o", "b.trace.json")[2]
        assert "a.json: pytest-opprof profile does not tell when anything ran: a bar in the trace is the sum" in err
        assert run("convert", "a.json", "-o", "b.trace.json")[1] == "wrote b.trace.json: a Chrome trace\n"
        assert len(json.loads(Path("b.trace.json").read_text())["traceEvents"]) == 4

    def test_gzipped_by_its_name_with_the_same_content(self, run: Run) -> None:
        for name in ("b.trace.json", "b.json"):
            run("convert", "a.json", "-o", name)
            run("convert", "a.json", "-o", f"{name}.gz")
            assert gzip.decompress(Path(f"{name}.gz").read_bytes()) == Path(name).read_bytes()
        assert run("show", "b.json.gz", "-t0")[1] == run("show", "a.json", "-t0")[1]

    def test_it_never_overwrites_what_it_reads(self, run: Run) -> None:
        before = Path("a.json").read_text()
        code, _, err = run("convert", "a.json", "-o", "./a.json")
        assert (code, "is the profile itself" in err) == (2, True)
        assert Path("a.json").read_text() == before

    def test_a_place_that_cannot_be_written_is_an_error(self, run: Run) -> None:
        assert run("convert", "a.json", "-o", "a.json/b.json")[0] == 2


def test_formats_are_listed(run: Run) -> None:
    code, out, _ = run("formats")
    assert code == 0
    assert "pytest-opprof profile\n" in out
    assert "ncu                 Nsight Compute table (ncu --csv); as documented, not tried on recordings\n" in out


@pytest.mark.processes
def test_a_reader_that_has_seen_enough_is_no_error(run: Run) -> None:
    command = f"{sys.executable} -m pytest_opprof show a.json -t0 --format csv | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, env=os.environ)
    assert done.stderr == ""


@pytest.mark.processes
def test_to_show_a_small_profile_needs_no_numpy_and_no_framework(run: Run) -> None:
    code = (
        "import sys; from pytest_opprof.cli.main import main; main(['show', 'a.json', '--format', 'json']);"
        "assert not {'numpy', 'pytest', 'torch', 'jsonschema', 'tabulate'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class TestWhatCannotBeSeen:
    def test_a_limit_on_an_op_that_the_source_cannot_tell_is_an_error(self, run: Run) -> None:
        save("b.json", made(SavedOp("k", "kernel", device_ns=5), SavedOp("m", "MemcpyHtoD"), untold=("*",)))
        for budget in ("Cast=0", "MatMul=0", "only=MatMul"):
            code, _, err = run("check", "b.json", "--budget", budget)
            assert (code, "cannot be checked: made by hand does not tell" in err) == (2, True)
        assert (
            run("check", "b.json", "--budget", "MemcpyHtoD=1", "--budget", "kernel=1", "--budget", "Memset=0")[0] == 0
        )
        save("c.json", made(untold=("Cast",)))
        assert run("check", "c.json", "--budget", "Cast=0")[0] == 2
        assert run("check", "c.json", "--budget", "MatMul=0", "--budget", "device_time=1s")[0] == 0

    def test_guessed_types_do_not_matter_to_a_limit_on_the_whole(self, run: Run) -> None:
        save("b.json", made(inferred_types=True))
        assert run("check", "b.json", "--budget", "device_time=1s")[0] == 0

    def test_ops_without_a_time_are_shown_and_told_of(self, run: Run) -> None:
        save("b.json", made(RECORDS[0], RECORDS[1]._replace(device_ns=None, host_ns=None)))
        code, out, err = run("show", "b.json", "--only-ops")
        assert (code, out.split()[0::3]) == (0, ["conv1", "cast_a"])
        assert err == "opprof: b.json: 3 calls have no time and are left out of sums; the first is of Cast\n"

    def test_limits_of_a_profile_with_steps_are_said_to_hold_for_each(self, run: Run) -> None:
        save("b.json", made(RECORDS[0], RECORDS[0]._replace(step=1, calls=5), steps=("7", "8")))
        assert "in each of 2 steps, times in the fastest" in run("check", "b.json", "--budget", "Conv=5")[1]
        assert "in each of 2 steps" in run("check", "b.json", "--budget", "Conv=4")[1]
        assert "each op has the calls of the step with most" in run("diff", "b.json", "b.json")[1]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds the memory of a process")
@pytest.mark.processes
def test_a_profile_that_takes_more_memory_than_the_bound_is_one_error(run: Run) -> None:
    import resource

    events = ",".join(f'{{"ph":"X","cat":"cpu_op","name":"a{n}","ts":{n},"dur":1}}' for n in range(100_000))
    Path("b.json").write_text(f'{{"schemaVersion":1,"traceEvents":[{events}]}}')
    code = (
        "from pytest_opprof.cli import main; from pytest_opprof.cli.inputs import reading;"
        "reading.MOST_MEMORY = 64 << 20; raise SystemExit(main.main(['show', 'b.json']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("opprof: b.json: takes more memory to read than the 0 GiB that opprof takes")
    before = resource.getrlimit(resource.RLIMIT_AS)
    assert run("show", "a.json")[0] == 0
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_an_interrupt_ends_in_one_line_and_nothing_is_written(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pytest_opprof.frameworks.files.formats.read", interrupted)
    assert run("convert", "a.json", "-o", "b.json") == (130, "", "opprof: interrupted\n")
    assert [path.name for path in Path().iterdir()] == ["a.json"]


class TestWhereOutputGoes:
    @pytest.mark.parametrize(
        ("output", "message"),
        [("/dev/null", "is no file"), ("nowhere/b.json", "there is no folder"), (".", "is no file")],
    )
    def test_convert_writes_files_in_folders_that_are_there(self, run: Run, output: str, message: str) -> None:
        code, _, err = run("convert", "a.json", "-o", output)
        assert (code, message in err) == (2, True)
        assert Path("/dev/null").is_char_device()
        assert not Path("nowhere").exists()

    def test_convert_writes_through_a_link(self, run: Run) -> None:
        Path("real.json").write_text("old")
        Path("link.json").symlink_to("real.json")
        assert run("convert", "a.json", "-o", "link.json")[0] == 0
        assert Path("link.json").is_symlink()
        assert "opprof_profile" in Path("real.json").read_text()

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full is Linux's")
    @pytest.mark.parametrize("redirect", [">/dev/full", ">&-"])
    @pytest.mark.processes
    def test_output_that_cannot_be_written_is_one_error(self, run: Run, redirect: str) -> None:
        command = f"{sys.executable} -m pytest_opprof show a.json -t0 --format csv {redirect}"
        done = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith("opprof: ")
        assert len(done.stderr.splitlines()) == 1


def test_more_peak_memory_is_a_finding_of_diff(run: Run) -> None:
    save("small.json", made(peak_memory=1 << 20))
    save("large.json", made(peak_memory=500 << 20))
    code, out, _ = run("diff", "small.json", "large.json")
    assert (code, "peak memory: 500 MiB (before: 1 MiB)" in out) == (1, True)
    assert run("diff", "small.json", "small.json")[0] == 0
