"""compare metrics | curves | samples on known truth: the real commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked
import pytest

from bpmcli.cli.options.truths import parse_sizes
from bpmcli.core.compare.metrics_on_truth import MeasureDraw
from bpmcli.core.compare.truths import TRUTHS
from bpmcli.core.metrics import calibration_errors
from bpmcli.errors import UsageError

pytestmark = pytest.mark.usefixtures("unjudged")

Run = Callable[..., Any]
SAMPLE_DATA = Path(__file__).resolve().parents[2] / "sample_data"
SMALL = ("--truth", "D1,D4", "-n", "120,240", "--runs", "4")


def document(run: Run, *argv: object) -> Any:
    return json.loads(run(*argv, "-f", "json").out)


def test_metrics_against_the_exact_error(run: Run) -> None:
    found = document(run, "compare", "metrics", *SMALL)
    assert [t["tce"] for t in found["truths"]] == [TRUTHS["D1"].tce(), TRUTHS["D4"].tce()]
    assert len(found["scores"]) == 2 * 2 * len(calibration_errors())
    for s in found["scores"]:
        assert s["runs"] == 4
        assert s["mean"] == pytest.approx(s["tce"] + s["bias"])
        assert s["rmse"] ** 2 == pytest.approx(s["bias"] ** 2 + s["sd"] ** 2 * 3 / 4)


def test_one_and_two_workers_write_the_same_bytes(run: Run) -> None:
    for jobs, call in ((1, run), (2, forked.run)):
        call("compare", "metrics", *SMALL, "-j", jobs, "-o", f"m{jobs}.parquet", "--resume", f"r{jobs}.jsonl")
        call("compare", "curves", *SMALL, "-j", jobs, "-o", f"c{jobs}.csv", "--method", "hb-mean")
    for one, two in (("m1.parquet", "m2.parquet"), ("c1.csv", "c2.csv"), ("r1.jsonl", "r2.jsonl")):
        assert Path(one).read_bytes() == Path(two).read_bytes()
    quick = ("compare", "metrics", *SMALL, "-m", "ece", "-f", "csv")
    assert run(*quick, "--seed", 1).out != run(*quick).out


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The draws that were really made."""
    made: list[Any] = []
    measure = MeasureDraw.__call__

    def counting(self: MeasureDraw, draw: Any) -> Any:
        made.append(draw)
        return measure(self, draw)

    monkeypatch.setattr(MeasureDraw, "__call__", counting)
    return made


def test_an_interrupted_run_goes_on(run: Run, monkeypatch: pytest.MonkeyPatch, calls: list[Any]) -> None:
    whole = run("compare", "metrics", *SMALL, "-f", "csv").out
    assert len(calls) == 16
    counting = MeasureDraw.__call__

    def interrupted(self: MeasureDraw, draw: Any) -> Any:
        if len(calls) == 16 + 7:
            raise KeyboardInterrupt
        return counting(self, draw)

    monkeypatch.setattr(MeasureDraw, "__call__", interrupted)
    run("compare", "metrics", *SMALL, "--resume", "draws.jsonl", code=130)
    monkeypatch.setattr(MeasureDraw, "__call__", counting)
    assert len(Path("draws.jsonl").read_text().splitlines()) == 1 + 7
    ran = run("compare", "metrics", *SMALL, "--resume", "draws.jsonl", "-f", "csv")
    assert "7 of 16 data sets are done already" in ran.err
    assert ran.out == whole
    assert len(calls) == 16 + 16


def test_more_runs_add_to_those_there_are(run: Run, calls: list[Any]) -> None:
    run("compare", "metrics", "--truth", "D1", "-n", "120", "--runs", 3, "--resume", "draws.jsonl")
    more = run("compare", "metrics", "--truth", "D1", "-n", "120", "--runs", 5, "--resume", "draws.jsonl", "-f", "csv")
    assert [c.run for c in calls] == [0, 1, 2, 3, 4]
    assert more.out == run("compare", "metrics", "--truth", "D1", "-n", "120", "--runs", 5, "-f", "csv").out


@pytest.mark.parametrize("other", [("--seed", "1"), ("-m", "ece"), ("--p", "2")])
def test_draws_of_other_options_are_refused(run: Run, other: tuple[str, str]) -> None:
    base = ("compare", "metrics", "--truth", "D1", "-n", "120", "--runs", 2, "--resume", "draws.jsonl")
    run(*base)
    before = Path("draws.jsonl").read_bytes()
    assert "other options" in run(*base, *other, code=3).err
    assert Path("draws.jsonl").read_bytes() == before


def test_a_foreign_resume_file_is_refused(run: Run) -> None:
    Path("notes.txt").write_text("not draws\n")
    ran = run("compare", "metrics", "--truth", "D1", "-n", "120", "--runs", 2, "--resume", "notes.txt", code=3)
    assert "notes.txt: is not JSON" in ran.err
    assert Path("notes.txt").read_text() == "not draws\n"


def test_a_fitted_curve_as_the_truth(run: Run) -> None:
    run("fit", SAMPLE_DATA / "digits_val.npz", "-o", "params.json")
    fitted = json.loads(Path("params.json").read_text())
    found = document(run, "compare", "metrics", "--truth", "params.json", "-n", "300", "--runs", 2)
    assert found["truths"][0]["tce"] == pytest.approx(fitted["fit"]["tce"]["value"], abs=1e-12)
    assert found["truths"][0]["beta"] == [fitted["fit"]["density"]["a1"], fitted["fit"]["density"]["a2"]]


def test_draws_depend_on_eight_digits_of_a_curve_and_not_on_its_file(run: Run) -> None:
    """The last digits of a fit differ between processors."""
    run("fit", SAMPLE_DATA / "digits_val.npz", "-o", "first.json")
    fitted = json.loads(Path("first.json").read_text())

    def scores(factor: float, name: str) -> Any:
        changed = {**fitted, "parameters": {k: v * factor for k, v in fitted["parameters"].items()}, "notices": [name]}
        Path(name).write_text(json.dumps(changed))
        found = document(run, "compare", "metrics", "--truth", name, "-n", "300", "--runs", 2, "-m", "ece")
        return [score["mean"] for score in found["scores"]]

    assert scores(1 + 1e-13, "near.json") == pytest.approx(scores(1, "same.json"), abs=1e-9)
    assert scores(1 + 1e-5, "other.json") != pytest.approx(scores(1, "same.json"), abs=1e-9)


def test_the_confidences_of_a_file_as_the_density(run: Run) -> None:
    data = SAMPLE_DATA / "digits_test.npz"
    run("fit", data, "-o", "iso.json", "--method", "isotonic")
    argv = ("compare", "metrics", "--truth", "iso.json", "-n", "300", "--runs", 2)
    assert "--density-from" in run(*argv, code=3).err
    found = document(run, *argv, "--truth", "D1", "--density-from", data)
    assert [t["beta"] for t in found["truths"]] == [None, None]
    assert [t["truth"] for t in found["truths"]] == [f"iso.json@{data}", f"D1@{data}"]
    # The curve that was fitted to these rows, on these rows: the mean distance to the diagonal.
    run("fit", data, "-o", "bpm.json", "--density", "empirical")
    exact = json.loads(Path("bpm.json").read_text())["fit"]["tce"]["value"]
    again = document(run, "compare", "metrics", "--truth", "bpm.json", "--density-from", data, "-n", "300", "--runs", 2)
    assert again["truths"][0]["tce"] == pytest.approx(exact, abs=1e-12)


def test_confidences_need_no_labels(run: Run) -> None:
    Path("bare.csv").write_text("confidence\n" + "\n".join(f"0.{i}" for i in range(500, 900)) + "\n")
    argv = ("compare", "curves", "--truth", "beta:0.5,0.6,0.2", "-n", "100", "--runs", 2, "--method", "hb-5")
    assert "distribution of confidence is missing" in run(*argv, code=2).err
    found = document(run, *argv, "--density-from", "bare.csv")
    assert [s["method"] for s in found["scores"]] == ["bpm", "hb-5"]


def test_curves_and_their_paired_test(run: Run) -> None:
    found = document(run, "compare", "curves", "--truth", "D5", "-n", "800", "--runs", 6)
    by_method = {s["method"]: s for s in found["scores"]}
    assert {"bpm", "hb-mean", "isotonic", "histogram"} <= set(by_method)
    assert by_method["bpm"]["p_value"] is None
    assert by_method["identity"]["p_value"] == pytest.approx(2 / 2**6)  # worse in all six runs
    assert by_method["identity"]["error"] == pytest.approx(TRUTHS["D5"].tce(), abs=1e-7)
    assert "temperature" in run("compare", "curves", "--truth", "D5", "-n", "100", "--runs", 1).err


def test_samples_needed(run: Run) -> None:
    argv = (
        "compare",
        "samples",
        "--truth",
        "D4",
        "--error",
        0.04,
        "-n",
        "100:6400:x4",
        "--runs",
        10,
        "--method",
        "hb-20",
    )
    found = document(run, *argv)
    assert found["sizes"] == [100, 400, 1600, 2809, 6400]  # 2809 = 3 ln 20 / (2 · 0.04²)
    bpm, binned = found["needs"]
    assert bpm["n_mean"] < binned["n_mean"]
    assert bpm["held"] == 1.0
    assert binned["claim"] == pytest.approx(3 / 20)
    assert binned["bpm_share"] == pytest.approx(bpm["n_sure"] / binned["n_sure"])


@pytest.mark.parametrize(
    ("text", "sizes"),
    [("70", [70]), ("5,3,5", [3, 5]), ("500:1500:500", [500, 1000, 1500]), ("2:6", [2, 4, 6]), ("3:30:x3", [3, 9, 27])],
)
def test_sizes(text: str, sizes: list[int]) -> None:
    assert parse_sizes("-n", text) == sizes


@pytest.mark.parametrize("text", ["", "x", "0", "5:1:1", "1:5:0", "1:5:x1", "0:5:x2", "1:2:3:4", "-5"])
def test_nonsense_sizes(text: str) -> None:
    with pytest.raises(UsageError):
        parse_sizes("-n", text)


@pytest.mark.parametrize(
    ("argv", "code", "sentence"),
    [
        (("metrics",), 2, "give files, or --truth"),
        (("metrics", "--truth", "D6"), 2, "unknown distribution 'D6'"),
        (("metrics", "--truth", "D1", "--runs", "0"), 2, "--runs must be between 1 and 100000, got 0"),
        (("metrics", "--truth", "D1", "--seed", "-1"), 2, "--seed must be 0 or more, got -1"),
        (("metrics", "--truth", "D1", "-o", "x.xyz"), 2, "cannot write"),
        (("metrics", "--truth", "D1", "--plot", "x.gif"), 2, ".png, .svg or .pdf"),
        (("metrics", "--truth", "gone.json"), 3, "no such file"),
        (("metrics", "--truth", "D1", "--density-from", "gone.npz"), 3, "gone.npz"),
        (("metrics", "--truth", "beta:1,1@2,3"), 2, "takes 3 finite parameters"),
        (("metrics", "--truth", "beta:1,1,0@2,-3"), 2, "must lie between"),
        (("metrics", SAMPLE_DATA / "digits_test.npz", "--plot", "x.png"), 2, "--plot needs --truth"),
        (("curves",), 2, "--truth is missing"),
        (("curves", "--truth", "D1", "--method", "temperature"), 2, "scores of all classes"),
        (("samples", "--truth", "D1", "--error", "0"), 2, "--error must be above 0"),
        (("samples", "--truth", "D1", "--delta", "1"), 2, "--delta must be above 0"),
    ],
)
def test_errors_say_what_to_do(run: Run, argv: tuple[object, ...], code: int, sentence: str) -> None:
    ran = run("compare", *argv, code=code)
    assert sentence in ran.err
    assert ran.out == ""
    assert not list(Path().iterdir())


def test_a_truth_that_needs_all_classes_is_refused(run: Run) -> None:
    run("fit", SAMPLE_DATA / "digits_val.npz", "--method", "temperature", "-o", "t.json")
    assert "works on all classes" in run("compare", "metrics", "--truth", "t.json", code=3).err
