"""The report: what it says, that nothing from a file becomes markup, and that it loads nothing."""

from __future__ import annotations

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import remembered
from conftest import SAMPLE_DATA

from bpmcli.report import page

pytest.importorskip("jinja2")

OVER, GOOD, VAL = (str(SAMPLE_DATA / f"digits_{name}.npz") for name in ("overconfident", "good", "val"))
FAST = ("--resamples", 20)


class Tags(HTMLParser):
    """Tags that are opened and not closed, and all attributes."""

    VOID = frozenset({"meta", "link", "path", "circle", "rect", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def rows(path: str, seed: int = 0, header: str = "confidence,hit,site") -> None:
    rng = np.random.default_rng(seed)
    s = rng.uniform(0.5, 1.0, 200)
    lines = [
        f"{a:.4f},{int(b)},{'north' if i % 2 else 'south'}"
        for i, (a, b) in enumerate(zip(s, rng.random(200) < s - 0.1, strict=True))
    ]
    Path(path).write_text("\n".join([header, *lines]) + "\n")


def test_one_page_about_several_models(run):
    ran = run("report", OVER, GOOD, "-o", "report.html", *FAST)
    assert ran.out == ""
    assert "report.html: 2 models" in ran.err
    text = Path("report.html").read_text()
    tags = Tags(text)
    assert tags.open == []
    # The better model comes first, in the table and below it.
    assert text.index("digits_good.npz") < text.index("digits_overconfident.npz")
    for expected in ("Where the error is", "tce", "ece-debiased", "calibration curve", "1,797"):
        assert expected in text
    assert text.count('class="diagram"') == 2


def test_it_loads_nothing_and_runs_no_foreign_script(run):
    run("report", OVER, "-o", "report.html", *FAST)
    text = Path("report.html").read_text()
    tags = Tags(text)
    for name, value in tags.attributes:
        assert name not in ("src", "srcset", "onclick", "onload"), (name, value)
        if name == "href":
            assert (value or "").startswith(("#", "data:,")), value
    assert "default-src 'none'" in text
    assert not re.search(r"https?://", text)


def test_names_in_files_do_not_become_markup(run):
    name = "<img src=x onerror=alert(1)>\"'&.csv"
    rows(name, header='confidence,hit,"<b>site</b>"')
    run("report", name, "-o", "report.html", "--by", "<b>site</b>", *FAST)
    text = Path("report.html").read_text()
    tags = Tags(text)
    assert tags.open == []
    assert "<img" not in text
    assert "<b>site" not in text
    assert name in "".join(tags.text)
    assert not [a for a in tags.attributes if a[0] == "onerror"]


def test_the_same_bytes_twice(run):
    rows("a.csv")
    for name in ("one.html", "two.html"):
        run("report", "a.csv", "-o", name, *FAST)
        remembered.forget()
    assert Path("one.html").read_bytes() == Path("two.html").read_bytes()


def test_groups_and_repairs(run):
    rows("a.csv")
    rows("val.csv", seed=1)
    run("report", "a.csv", "-o", "report.html", "--by", "site", "--calibration", "val.csv", *FAST)
    text = Path("report.html").read_text()
    for expected in (
        "By site",
        "north",
        "south",
        "What a calibrator would gain",
        "fitted to val.csv",
        "bpm-averaged",
        "identity",
    ):
        assert expected in text


def test_calibrators_have_the_marks_of_compare_calibrators(run):
    rows("a.csv")
    rows("val.csv", seed=1)
    run("report", "a.csv", "-o", "report.html", "--calibration", "val.csv", *FAST)
    pair = ("--calibration", "val.csv", "--evaluation", "a.csv", "-m", "ece", "--rank-by", "nll")
    (found,) = json.loads(run("compare", "calibrators", *pair, "--format", "json").out)["inputs"]
    cells = re.findall(
        r'<tr><th scope="row">([\w-]+)</th><td class="n( best)?">[\d.]+( ~)?</td>', Path("report.html").read_text()
    )
    assert [name for name, best, _ in cells if best] == found["choice"]["best"]
    assert {name for name, _, close in cells if close} == set(found["choice"]["not_significantly_worse"])
    assert any(close for *_, close in cells)


@pytest.mark.parametrize(
    ("intervals", "tied"),
    [
        ([(0.0, 0.02), (0.02, 0.04), (0.03, 0.05)], {0, 1}),
        ([(0.0, 0.02), (0.021, 0.04)], set()),  # the best stands alone
        ([(None, None), (0.0, 0.1)], set()),
        ([(0.0, 0.1), (None, None)], set()),
    ],
)
def test_ties_with_the_best_model(intervals, tied):
    assert page.ties_with_best([{"low": low, "high": high} for low, high in intervals]) == tied


def test_ties_are_marked_and_explained(run):
    for seed, name in enumerate("ab"):
        rows(f"{name}.csv", seed)
    run("report", "a.csv", "b.csv", "-o", "tied.html", *FAST)
    assert "~ its interval overlaps the interval of the best model" in Path("tied.html").read_text()
    run("report", OVER, GOOD, "-o", "clear.html", *FAST)
    assert "overlaps" not in Path("clear.html").read_text()


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        ({"identity": 0.9, "beta": 0.4, "bpm": 0.5, "matrix": None}, "beta, would lower the log loss of these rows from 0.9000 to 0.4000."),
        ({"identity": 0.4, "beta": 0.5}, "No calibrator would lower the log loss of these rows."),
        ({"identity": 0.4, "beta": 0.39999}, "No calibrator would lower the log loss of these rows."),
        ({"identity": None, "beta": 0.5}, ""),
        ({}, ""),
    ],
)  # fmt: skip
def test_what_the_best_calibrator_would_gain(losses, words):
    assert page.gain(losses).endswith(words)
    assert bool(page.gain(losses)) == bool(words)


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        ((0.231, 0.01), "lower the calibration error (tce) of these rows from 23.1 to 1.0 points and their log loss from 0.9000 to 0.4000."),
        ((0.01, 0.02), "from 0.9000 to 0.4000, but not their calibration error (tce 1.0 points before, 2.0 after)."),
        ((0.0101, 0.01), "from 0.9000 to 0.4000, but not their calibration error (tce 1.0 points before, 1.0 after)."),
    ],
)  # fmt: skip
def test_the_calibration_error_before_and_after(errors, words):
    assert page.gain({"identity": 0.9, "beta": 0.4}, errors).endswith(words)


def test_the_calibration_error_after_the_best_calibrator_is_measured(run):
    run("report", OVER, "-o", "r.html", "--calibration", VAL, *FAST)
    found = re.search(
        r"The best of them, ([\w-]+), would lower .*? from ([\d.]+) to ([\d.]+) points", Path("r.html").read_text()
    )
    assert found
    pair = (
        "--calibration",
        VAL,
        "--evaluation",
        OVER,
        "--method",
        "identity",
        "--method",
        found[1],
        "-m",
        "tce",
        "-f",
        "csv",
    )
    scores = list(csv.DictReader(run("compare", "calibrators", *pair).out.splitlines()))
    expected = {s["method"]: f"{100 * float(s['value']):.1f}" for s in scores if s["score"] == "tce"}
    assert found.groups()[1:] == (expected["identity"], expected[found[1]])


@pytest.mark.parametrize(("n", "verdict"), [(20, "too few rows to tell"), (4000, "calibrated as far as")])
def test_noise_is_not_shown_as_the_place_of_the_error(run, n, verdict):
    rng = np.random.default_rng(0)
    s = rng.uniform(0.5, 1.0, n)
    lines = [f"{a:.4f},{int(b)}" for a, b in zip(s, rng.random(n) < s, strict=True)]
    Path("a.csv").write_text("\n".join(["confidence,hit", *lines]) + "\n")
    run("report", "a.csv", "-o", "r.html", *FAST)
    text = Path("r.html").read_text().lower()
    assert verdict in text
    assert "where the error is" not in text


def test_one_model_is_not_sorted(run):
    rows("a.csv")
    run("report", "a.csv", "-o", "one.html", *FAST)
    assert "Press a heading" not in Path("one.html").read_text()
    rows("b.csv", seed=1)
    run("report", "a.csv", "b.csv", "-o", "two.html", *FAST)
    assert Path("two.html").read_text().count("Press a heading") == 1


def test_sentences_are_outside_the_parts_that_scroll(run):
    """A sentence in a caption is as wide as its table, so a narrow window would cut it off."""
    for seed, name in enumerate(("a.csv", "b.csv", "val.csv")):
        rows(name, seed)
    run("report", "a.csv", "b.csv", "-o", "r.html", "--calibration", "val.csv", "--by", "site", *FAST)
    text = Path("r.html").read_text()
    for part in re.findall(r'<div class="scroll".*?</div>', text, re.DOTALL):
        assert "<caption" not in part
        assert "<p" not in part


def test_events_are_worded_as_events(run):
    rng = np.random.default_rng(0)
    p = rng.uniform(0, 0.6, 400)
    lines = [f"{a:.4f},{int(b)},x" for a, b in zip(p, rng.random(400) < p / 2, strict=True)]
    Path("e.csv").write_text("\n".join(["prob,label,site", *lines]) + "\n")
    run("report", "e.csv", "--event", "--by", "site", "-o", "e.html", *FAST)
    told = re.sub(r"<style>.*?</style>| class=\"[^\"]*\"", "", Path("e.html").read_text(), flags=re.DOTALL)
    assert "mean |event rate - probability| over 15 equal-mass bins" in told
    assert not re.findall(r"accura|confiden", told)
    text = Path("e.html").read_text()
    for words in ("how often the event happens", "and the event happens", ">event rate<", ">mean P(y = 1)<"):
        assert words in text
    for words in ("is right", "are right", "says"):
        assert words not in text


def test_metrics_that_disagree_are_explained_on_the_page(run):
    rng = np.random.default_rng(0)
    s = rng.random(3000)
    with Path("w.csv").open("w") as out:
        out.write("confidence,hit\n")
        out.writelines(f"{a},{int(b)}\n" for a, b in zip(s, rng.random(3000) < 0.5, strict=True))
    run("report", "w.csv", "-o", "w.html", *FAST)
    assert "over- and under-confidence cancel in it." in Path("w.html").read_text()


def test_an_input_that_cannot_be_read_is_named_on_the_page(run):
    rows("a.csv")
    Path("bad.csv").write_text("confidence,hit\n2.5,1\n")
    ran = run("report", "a.csv", "bad.csv", "-o", "report.html", *FAST, code=3)
    assert "bad.csv" in ran.err
    text = Path("report.html").read_text()
    assert "Could not be read" in text
    assert text.count("bad.csv") == 1


def test_nothing_is_written_when_nothing_could_be_read(run):
    Path("bad.csv").write_text("confidence,hit\n2.5,1\n")
    run("report", "bad.csv", "-o", "report.html", code=3)
    assert not Path("report.html").exists()


def test_usage(run, monkeypatch):
    rows("a.csv")
    assert "report.html" in run("report", "a.csv", "-o", "report.txt", code=2).err
    assert "not among the inputs" in run("report", "a.csv", "-o", "r.html", "--calibration", "a.csv", code=2).err
    monkeypatch.setattr(page, "find_spec", lambda name: None)
    assert "pip install jinja2" in run("report", "a.csv", "-o", "r.html", code=2).err


@pytest.mark.parametrize(
    ("value", "text"), [(0.5, "50.0\xa0%"), (0.99999, "99.999\xa0%"), (1.0, "100.0\xa0%"), (None, "–")]
)
def test_shares_near_one_keep_their_digits(value, text):
    assert page.percent(value) == text


def test_lines_break_neither_before_a_percent_sign_nor_within_an_option():
    found = str(page.unbroken("<b> 5 % with --density empirical"))
    assert found == '&lt;b&gt; 5\xa0% with <span class="whole">--density</span> empirical'


def test_a_calibration_file_that_does_not_suit_an_input_costs_only_the_repairs(run):
    rows("a.csv")
    rng = np.random.default_rng(0)
    np.savez("three.npz", logits=rng.normal(size=(60, 3)), labels=rng.integers(0, 3, 60))
    done = run("report", "a.csv", "three.npz", OVER, "-o", "r.html", "--calibration", VAL, *FAST)
    text = Path("r.html").read_text()
    assert "3 models" in done.err + done.out
    assert "what a calibrator would gain is not known" in text  # three classes, ten classes
    assert text.count("What a calibrator would gain") == 2
    assert "nll-all is the log loss of all classes" in text


@pytest.mark.parametrize(
    ("names", "folder"),
    [(["a/b/x.npz", "a/c/y.npz"], "a/"), (["/x.npz", "/y.npz"], ""), (["a/x.npz"], ""), (["a/x.npz", "y.npz"], "")],
)
def test_the_folder_that_all_inputs_share_is_named_once(names, folder):
    assert page.common_folder(names) == folder


def test_the_page_shows_names_that_are_not_utf8_and_no_control_characters(run):
    name, group = "caf\udce9\x1b[31m.csv", "si\x1b\x07te"
    rows(name, header=f"confidence,hit,{group}")
    run("report", name, "-o", "r.html", "--by", group, *FAST)
    text = Path("r.html").read_text(encoding="utf-8")
    assert r"caf\xe9\x1b[31m.csv" in text
    assert r"By si\x1b\x07te" in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
