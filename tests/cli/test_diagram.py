"""The reliability diagram in characters."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from bpmcli.cli import diagram
from bpmcli.cli.diagram import OVER, UNDER, Glyph, draw, plain
from bpmcli.core.data.sample import sample_from_confidences
from bpmcli.core.metrics.axis import CONFIDENCE, LOG_ODDS
from bpmcli.core.metrics.reliability import Reliability, reliability


def rows(shift: float, n: int = 4000, seed: int = 0) -> Reliability:
    """Confidences between 0.5 and 0.95 whose accuracy is off by `shift`."""
    rng = np.random.default_rng(seed)
    s = rng.uniform(0.5, 0.95, n)
    return reliability(sample_from_confidences(s, rng.random(n) < s + shift))


def colours(lines: list[list[Glyph]]) -> set[str]:
    return {glyph.colour.removeprefix("bold ") for line in lines for glyph in line} & {OVER, UNDER, diagram.FINE}


@pytest.mark.parametrize(("shift", "colour"), [(-0.2, OVER), (+0.04, UNDER)])
def test_colour_says_on_which_side_the_band_lies(shift, colour):
    assert colour in colours(draw(rows(shift), 80))


def test_calibrated_rows_are_green():
    lines = draw(rows(0.0), 80)
    assert colours(lines) == {diagram.FINE}
    key = "".join(glyph.text for glyph in diagram.colour_key(lines, False))
    assert key.strip() == "green: calibrated within the band"


def test_bins_at_the_edge_of_the_log_odds_are_explained():
    s = np.concatenate([np.full(500, 0.999), np.full(100, 0.6), np.full(100, 0.01)])
    hits = np.concatenate([np.ones(500), np.arange(100) % 2, np.zeros(100)])
    found = reliability(sample_from_confidences(s, hits))
    assert "● bin (top edge: 100 %, bottom edge: 0 %)" in " ".join(plain(draw(found, 200)).split())
    assert "edge" not in plain(draw(reliability(sample_from_confidences(s, hits), axis=CONFIDENCE), 200))


@pytest.mark.parametrize("width", [30, 80, 120])
@pytest.mark.parametrize("axis", [CONFIDENCE, LOG_ODDS])
def test_it_fits_the_terminal(width, axis):
    sample = sample_from_confidences(np.linspace(0.01, 0.999, 300), np.arange(300) % 3 > 0)
    text = plain(draw(reliability(sample, axis=axis), width))
    longest = max(len(line) for line in text.splitlines()[:-1])
    assert longest <= width
    assert longest > width - 12


@pytest.mark.parametrize("width", range(50, 130, 3))
def test_every_mark_of_the_legend_stands_beside_its_meaning(width):
    text = plain(draw(rows(-0.1), width))
    assert "\N{NO-BREAK SPACE}" not in text
    assert [mark for mark in ("● bin", "⠒ curve", "░ its", "⠐⠄ perfect") if mark not in text] == []


def test_ascii_has_nothing_else():
    text = plain(draw(rows(-0.1), 80, unicode=False))
    assert text.isascii()
    assert "*" in text
    assert "O" in text


def test_over_confident_curve_is_below_the_diagonal():
    lines = plain(draw(rows(-0.3), 80, unicode=False)).splitlines()[:-4]
    for column in range(20, 60):
        dots = [i for i, line in enumerate(lines) if line.ljust(80)[column] == "."]
        curve = [i for i, line in enumerate(lines) if line.ljust(80)[column] == "*"]
        if dots and curve:
            assert min(curve) > max(dots)  # lines are counted from the top


def test_bars_show_where_the_rows_are():
    s = np.concatenate([np.full(900, 0.9), np.full(100, 0.55)])
    lines = plain(draw(reliability(sample_from_confidences(s, np.ones(1000)), axis=CONFIDENCE), 80)).splitlines()
    low = next(i for i, line in enumerate(lines) if line.startswith("   rows"))
    for bars in lines[low - 1 : low + 1]:
        assert bars.count("█") == 1
        assert bars.index("█") > 60
    assert "▂" in lines[low]  # a ninth of sixteen steps
    assert "highest bar: 90 % of the rows" in " ".join(" ".join(lines[low + 1 :]).split())


def test_bins_with_few_rows_are_explained_where_there_are_some():
    s = np.concatenate([np.full(900, 0.9), np.full(20, 0.55)])
    sample = sample_from_confidences(s, np.arange(920) % 9 > 0)
    assert "(○ few rows)" in plain(draw(reliability(sample, binning="width"), 120))
    assert "○" not in plain(draw(rows(0.0), 120))


@pytest.mark.parametrize(("event", "words"), [(False, "red: over-confident"), (True, "red: too high")])
def test_the_colours_that_are_used_are_explained(event, words):
    key = "".join(glyph.text for glyph in diagram.colour_key(draw(rows(-0.2), 80, event=event), event))
    assert words in key
    assert "blue" not in key


def test_saturated_rows_get_ticks_in_log_odds():
    s = np.full(500, 0.9999)
    text = plain(draw(reliability(sample_from_confidences(s, np.arange(500) % 50 > 0)), 80))
    assert "0.99" in text
    assert "0.999" in text


@pytest.mark.parametrize(
    ("hits", "words"),
    [([1] * 100, "highest bar: 100 % of the rows, with confidences of 0.999999 and above"), ([1, 0] * 50, "0.99999")],
)
def test_confidences_of_one_have_a_labelled_axis(hits, words):
    text = plain(draw(reliability(sample_from_confidences(np.ones(100), hits)), 80))
    assert words in " ".join(text.split())
    assert " 0.9999 " in text
    bars = next(line for line in text.splitlines() if line.startswith("   rows"))
    assert bars.rstrip().endswith("█")
    assert len(bars.rstrip()) == 80


@pytest.mark.parametrize(
    ("p", "words"), [(1e-8, "probabilities of 0.000001 and below"), (1 - 1e-8, "probabilities of 0.999999 and above")]
)
def test_rows_beyond_either_end_of_the_axis_of_an_event_are_mentioned(p, words):
    found = reliability(sample_from_confidences(np.append(np.full(99, p), 0.5), [round(p)] * 100))
    text = " ".join(plain(draw(found, 80, event=True)).split())
    assert f"highest bar: 99 % of the rows, with {words}" in text


def test_small_probabilities_have_no_exponents():
    s = np.concatenate([np.full(50, 1e-6), np.full(50, 0.2)])
    text = plain(draw(reliability(sample_from_confidences(s, np.arange(100) % 10 == 0), axis=LOG_ODDS), 120))
    assert "0.00001" in text
    assert "e-" not in text


def test_event_wording():
    text = plain(draw(rows(0.0), 80, event=True))
    assert "event rate against P(y = 1)" in text
    assert "accuracy" not in text


def test_one_row_can_be_drawn():
    assert plain(draw(reliability(sample_from_confidences([0.8], [1])), 80))


def test_a_narrow_encoding_gets_ascii(monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr("sys.stdout", out)
    diagram.show_diagram(rows(0.0))
    out.flush()
    assert out.buffer.getvalue().decode("latin-1").isascii()


def test_colours_are_forced_and_forbidden(monkeypatch, capsys):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")
    diagram.show_diagram(rows(-0.2))
    assert "\033[" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    diagram.show_diagram(rows(-0.2))
    assert "\033[" not in capsys.readouterr().out


def test_metrics_draws_it_when_asked(run):
    Path("a.csv").write_text("confidence,hit\n0.9,1\n0.8,0\n0.7,1\n")
    assert "curve" not in run("metrics", "a.csv", "-m", "ece").out
    shown = run("metrics", "a.csv", "-m", "ece", "--diagram").out
    assert "accuracy against confidence" in shown
    assert shown.index("ece") < shown.index("accuracy against confidence")
    assert "--diagram" in run("metrics", "a.csv", "--diagram", "-f", "json", code=2).err


def test_each_of_several_inputs_is_named(run):
    for name in ("a.csv", "b.csv"):
        Path(name).write_text("confidence,hit\n0.9,1\n0.8,0\n0.7,1\n")
    shown = run("metrics", "a.csv", "b.csv", "-m", "ece", "--diagram").out
    assert shown.count("accuracy against confidence") == 2
