"""Pictures: every kind and format, the same bytes twice, nothing cut off, and a sentence without matplotlib."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bpmcli import plots
from bpmcli.cli import pictures
from bpmcli.core.calibrators import METHODS, FitOptions
from bpmcli.core.compare import before_after
from bpmcli.core.metrics import MetricOptions, reliability
from bpmcli.errors import UsageError
from bpmcli.io.layout import InputOptions
from bpmcli.io.paths import Input
from bpmcli.tasks.fit import FitFile
from bpmcli.tasks.measure import MeasureFile, Requested

pytest.importorskip("matplotlib")

Run = Callable[..., Any]
SAMPLE_DATA = Path(__file__).resolve().parent.parent / "sample_data"
FILES = [str(SAMPLE_DATA / f"digits_{name}.npz") for name in ("test", "overconfident", "underconfident", "good")]
NOTEBOOK = "logit-logit:-0.88,0.49@1.1233,0.1147"


def _reliability(path: str, files: list[str], options: InputOptions = InputOptions(), **more: Any) -> list[str]:  # noqa: B008
    """What `metrics --plot` draws of these files."""
    axis, overlay = more.pop("axis", None), more.pop("overlay", False)
    style = more.pop("style", plots.PLAIN)
    wanted = Requested(diagram=True, axis=axis, interval=more.pop("interval", None), resamples=20, parts=True)
    task = MeasureFile(options, ("ece", "tce"), MetricOptions(n_bins=more.pop("n_bins", 15)), wanted)
    return pictures.write_reliability(path, [task(Input(name, name))[0] for name in files], overlay, style)


def _fitted(path: str, method: str = "bpm") -> None:
    options = InputOptions()
    task = FitFile(options, method, FitOptions(), distributions=METHODS[method].needs_distribution)
    pictures.fitted(path, [task(Input(name, name))[0] for name in FILES[:2]], task)


def _curves(run: Run, path: str, *truths: str) -> None:
    more = [part for truth in truths for part in ("--truth", truth)]
    run("compare", "curves", *more, "-n", 300, "--runs", 3, "--method", "hb-mean", "--plot", path)


def _overlaid(path: str, count: int, log_odds: bool = False) -> None:
    """An overlay of so many inputs with long names."""
    rng, names = np.random.default_rng(0), []
    for i in range(count):
        names.append(f"predictions-of-a-model-with-a-long-name-checkpoint-{i}.csv")
        s = 1 - 10 ** -rng.uniform(0.5, 5.0, 200) if log_odds else rng.uniform(0.3, 1.0, 200)
        lines = [f"{a:.7f},{int(b)}" for a, b in zip(s, rng.random(200) < s - 0.02 * i, strict=True)]
        Path(names[-1]).write_text("\n".join(["confidence,hit", *lines]) + "\n")
    _reliability(path, names, overlay=True, interval=0.95)


KINDS: dict[str, Callable[[Run, str], None]] = {
    "reliability": lambda run, path: _reliability(path, FILES[:1], InputOptions()),
    "reliability of four": lambda run, path: _reliability(path, FILES, InputOptions()),
    "pooled": lambda run, path: run("metrics", *FILES[:2], "--pool", "--plot", path),
    "overlay": lambda run, path: _reliability(path, FILES, InputOptions(), overlay=True),
    "overlay of three": lambda run, path: _overlaid(path, 3),
    "overlay of eight": lambda run, path: _overlaid(path, 8),
    "overlay of eight in log-odds": lambda run, path: _overlaid(path, 8, log_odds=True),
    "fitted": lambda run, path: _fitted(path),
    "before and after": lambda run, path: _fitted(path, "temperature"),
    "one truth": lambda run, path: _curves(run, path, "D3"),
    "five truths": lambda run, path: _curves(run, path, "D1,D2,D3,D4", NOTEBOOK),
    "metrics": lambda run, path: run(
        "compare", "metrics", "--truth", "D1", "--truth", NOTEBOOK, "-n", "100,200", "--runs", 3, "--plot", path
    ),
    "metrics at one size": lambda run, path: run(
        "compare", "metrics", "--truth", "D4", "-n", "100", "--runs", 3, "--plot", path
    ),
    "samples": lambda run, path: run(
        "compare", "samples", "--truth", "D4,D5", "-n", "50,100", "--runs", 3, "--plot", path
    ),
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer dots per inch, bands from fewer draws and no advice on other methods: the layout is the same."""
    monkeypatch.setitem(plots.STYLE, "savefig.dpi", 50)
    monkeypatch.setattr(reliability, "DRAWS", 100)
    monkeypatch.setattr(before_after, "ALTERNATIVES", ())


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that were written."""
    from matplotlib.figure import Figure

    figures: list[Any] = []
    save = Figure.savefig

    def keep(self: Any, *args: Any, **kwargs: Any) -> None:
        figures.append(self)
        save(self, *args, **kwargs)
        # Keep the layout that is in the file: another one, or another resolution, would move the words.
        self.set_layout_engine("none")
        self.set_dpi(plots.STYLE["savefig.dpi"])

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures whose files were to be written. They are neither laid out nor rendered, which takes most of the time."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figures: list[Any] = []

    def keep(self: Any, path: str, **_: Any) -> None:
        figures.append(self)
        Path(path).touch()

    monkeypatch.setattr(Figure, "savefig", keep)
    monkeypatch.setattr(ConstrainedLayoutEngine, "execute", lambda self, figure: None)
    return figures


def words(figure: Any) -> list[tuple[str, Any]]:
    """Titles, labels and legends of a figure that was drawn, with their boxes."""
    texts = [figure._suptitle]
    for axes in figure.axes:
        if axes.axison:
            texts += [axes.title, axes.xaxis.label, axes.yaxis.label]
            for ticks, labels, view in (
                (axes.get_xticks(), axes.get_xticklabels(), axes.get_xlim()),
                (axes.get_yticks(), axes.get_yticklabels(), axes.get_ylim()),
            ):
                texts += [label for at, label in zip(ticks, labels, strict=False) if view[0] <= at <= view[1]]
    for legend in [*figure.legends, *(axes.get_legend() for axes in figure.axes)]:
        texts += legend.get_texts() if legend else []
    return [(t.get_text(), t.get_window_extent()) for t in texts if t is not None and t.get_text()]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_cut_off_and_nothing_overlaps(run: Run, saved: list[Any], kind: str) -> None:
    KINDS[kind](run, "picture.png")
    assert Path("picture.png").read_bytes().startswith(b"\x89PNG")
    (figure,) = saved
    page, found = figure.bbox, words(figure)
    assert len(found) >= 5
    for i, (text, box) in enumerate(found):
        inside = box.x0 >= page.x0 and box.x1 <= page.x1 and box.y0 >= page.y0 and box.y1 <= page.y1
        assert inside, f"'{text}' is cut off"
        for other, its in found[i + 1 :]:
            assert not _overlap(box, its), f"'{text}' covers '{other}'"


def _overlap(a: Any, b: Any) -> bool:
    return bool(min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1)


@pytest.mark.parametrize("format_", plots.SUFFIXES)
def test_the_same_bytes_twice(run: Run, format_: str) -> None:
    for name in ("one", "two"):
        _reliability(f"{name}.{format_}", FILES[:1], InputOptions())
    written = Path(f"one.{format_}").read_bytes()
    assert written == Path(f"two.{format_}").read_bytes()
    magic = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[format_]
    assert written.startswith(magic)
    assert sorted(p.name for p in Path().iterdir()) == [f"one.{format_}", f"two.{format_}"]


def test_axes_have_names_and_units(run: Run, drawn: list[Any]) -> None:
    KINDS["metrics"](run, "m.svg")
    labels = {label for axes in drawn[0].axes for label in (axes.get_xlabel(), axes.get_ylabel())}
    assert labels == {"rows", "mean calibration error (%)", "RMSE from the TCE (points)"}
    # The line of the exact TCE, in the same unit as the rest.
    left = drawn[0].axes[0]
    line = next(x for x in left.lines if x.get_label() == "exact TCE")
    assert line.get_ydata()[0] == pytest.approx(4.97260182523389859)


def test_the_reliability_diagram_shows_the_bins(run: Run, drawn: list[Any]) -> None:
    Path("rows.csv").write_text("confidence,hit\n" + "0.9,1\n" * 3 + "0.9,0\n" + "0.3,0\n" * 4)
    _reliability("r.png", ["rows.csv"], InputOptions(), n_bins=2)
    top, below = drawn[0].axes
    points = top.collections[-1].get_offsets()
    np.testing.assert_allclose(points, [[0.3, 0.0], [0.9, 0.75]], atol=1e-9)
    assert [round(bar.get_height()) for bar in below.patches if bar.get_height()] == [50, 50]


def test_the_curve_is_drawn_only_where_there_are_rows(run: Run, drawn: list[Any]) -> None:
    Path("rows.csv").write_text("confidence,hit\n" + "0.6,1\n0.7,0\n0.8,1\n" * 9)
    _reliability("r.png", ["rows.csv"], InputOptions())
    curve = next(line for line in drawn[0].axes[0].lines if "calibration curve" in line.get_label())
    # Both axes run from the lowest accuracy, 0, to 1, so places are confidences.
    np.testing.assert_allclose([min(curve.get_xdata()), max(curve.get_xdata())], [0.6, 0.8], atol=1e-9)


def test_extreme_confidences_get_a_log_odds_axis(run: Run, drawn: list[Any]) -> None:
    Path("rows.csv").write_text("confidence,hit\n" + "0.9999,1\n" * 50 + "0.999,0\n" * 2)
    _reliability("r.png", ["rows.csv"], InputOptions())
    assert "0.999" in [label.get_text() for label in drawn[0].axes[1].get_xticklabels()]
    _reliability("r.png", ["rows.csv"], InputOptions(), axis="confidence")
    assert "0.999" not in [label.get_text() for label in drawn[1].axes[1].get_xticklabels()]


def test_curves_share_the_axis_that_suits_most(run: Run, drawn: list[Any]) -> None:
    Path("plain.csv").write_text("confidence,hit\n" + "0.7,1\n" * 20 + "0.6,0\n" * 20)
    for name in ("a.csv", "b.csv"):
        Path(name).write_text("confidence,hit\n" + "0.9999,1\n" * 50 + "0.999,0\n" * 2)
    _reliability("r.png", ["plain.csv", "a.csv", "b.csv"], overlay=True)
    assert "0.999" in [label.get_text() for label in drawn[0].axes[0].get_xticklabels()]


def test_fit_draws_on_the_axis_of_the_rows_and_says_so(run: Run, drawn: list[Any]) -> None:
    Path("rows.csv").write_text("confidence,hit\n" + "0.9999,1\n" * 60 + "0.999,1\n" * 30 + "0.999,0\n" * 9)
    done = run("fit", "rows.csv", "--method", "bpm-averaged", "--interval", 0.9, "-o", "p.json", "--plot", "f.png")
    assert "wrote f.png" in done.err
    top, below = drawn[0].axes
    assert "0.999" in [label.get_text() for label in below.get_xticklabels()]
    assert "after calibration" in top.get_title()
    assert below.get_ylabel() == "% of rows"
    assert sum(bar.get_height() for bar in below.patches) == pytest.approx(100)


def test_panels_have_common_axes_and_all_their_rows(run: Run, drawn: list[Any]) -> None:
    Path("plain.csv").write_text("confidence,hit\n" + "0.7,1\n" * 20 + "0.3,0\n" * 20)
    Path("high.csv").write_text("confidence,hit\n" + "0.8,1\n" * 20 + "0.75,1\n" * 20)
    for name in ("a.csv", "b.csv"):
        Path(name).write_text("confidence,hit\n" + "0.9999,1\n" * 50 + "0.999,0\n" * 2)
    for names in (["plain.csv", "high.csv"], ["plain.csv", "a.csv", "b.csv"], ["a.csv", "plain.csv", "high.csv"]):
        _reliability("r.png", names)
        panels = drawn[-1].axes
        tops, belows = panels[: len(names)], panels[len(names) :]
        for part in (tops, belows):
            assert len({tuple(label.get_text() for label in axes.get_xticklabels()) for axes in part}) == 1
        assert len({tuple(label.get_text() for label in axes.get_yticklabels()) for axes in tops}) == 1
        for below in belows:
            assert sum(bar.get_height() for bar in below.patches) == pytest.approx(100)


def _labels(axes: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The labels of both axes."""
    x, y = ([label.get_text() for label in found] for found in (axes.get_xticklabels(), axes.get_yticklabels()))
    return tuple(x), tuple(y)


@pytest.mark.parametrize("method", ["bpm", "temperature"])
def test_panels_of_fits_have_common_axes_and_all_their_rows(run: Run, drawn: list[Any], method: str) -> None:
    _fitted("f.png", method)
    panels = drawn[0].axes
    tops, belows = ([a for a in panels if a.get_ylabel() in words] for words in (("accuracy",), ("% of rows",)))
    assert len(tops) == len(belows) == (2 if method == "bpm" else 4)
    assert len({_labels(axes) for axes in tops}) == 1
    for below in belows:
        assert sum(bar.get_height() for bar in below.patches) == pytest.approx(100)


def test_before_and_after_are_drawn_with_the_figures_of_the_fit(run: Run, drawn: list[Any]) -> None:
    run("fit", FILES[0], "--method", "temperature", "-o", "p.json", "--plot", "f.png")
    said = json.loads(Path("p.json").read_text())["validation"]
    before, after = (axes.get_title().splitlines() for axes in drawn[0].axes[:2])
    assert before[0] == "digits_test.npz: before"
    assert after[0] == "digits_test.npz: temperature"
    assert after[-1] == "(5-fold cross-validation)"
    for lines, key in ((before, "before"), (after, "after")):
        assert lines[1] == f"says {100 * said[key]['says']:.1f} %, is right {100 * said[key]['right']:.1f} %"
        assert lines[2].startswith(f"tce {said[key]['tce']:.4f} ({said[key]['low']:.4f} to ")


def test_no_rows_are_shown_beyond_the_highest_confidence(run: Run, drawn: list[Any]) -> None:
    """Where panels of both kinds share a log-odds axis, the rows of a linear one end with its rows."""
    Path("low.csv").write_text("confidence,hit\n" + "0.7,1\n" * 30 + "0.999,0\n" * 20)
    for name in ("a.csv", "b.csv"):
        Path(name).write_text("confidence,hit\n" + "0.99999,1\n" * 50 + "0.99,0\n" * 2)
    _reliability("r.png", ["low.csv", "a.csv", "b.csv"])
    below = drawn[0].axes[3]
    ticks = dict(zip((label.get_text() for label in below.get_xticklabels()), below.get_xticks(), strict=True))
    beyond = [bar.get_height() for bar in below.patches if bar.get_x() > ticks["0.999"]]
    assert len(beyond) > 5
    assert sum(beyond) == 0


def test_the_parts_of_the_brier_score_are_in_the_free_corner(run: Run, drawn: list[Any]) -> None:
    run(
        "metrics", FILES[1], "--plot", "a.png", "--axis", "log-odds"
    )  # over-confident: the curve runs below the diagonal
    run("metrics", FILES[2], "--plot", "b.png")  # under-confident
    measured = json.loads(run("metrics", FILES[1], "-m", "brier,mcb,dsc,unc", "-f", "json").out)["results"][0][
        "metrics"
    ]
    brier, mcb, dsc, unc = (found["value"] for found in measured.values())
    (over,), (under,) = (figure.axes[0].texts for figure in drawn)
    assert over.get_text() == (
        f"Brier score {brier:.4f}\n= miscalibration {mcb:.4f}\n− discrimination {dsc:.4f}\n+ uncertainty {unc:.4f}"
    )
    assert (over.get_ha(), over.get_va()) == ("left", "top")
    assert (under.get_ha(), under.get_va()) == ("right", "bottom")


def test_titles_break_without_a_dangling_comma(run: Run, drawn: list[Any]) -> None:
    Path("rows.csv").write_text("confidence,hit\n" + "0.7,1\n" * 20 + "0.6,0\n" * 20)
    _reliability("r.png", ["rows.csv"])
    _reliability("o.png", ["rows.csv"], overlay=True)
    lines = drawn[0].axes[0].get_title().splitlines()
    assert lines[1] == "says 65.0 %, is right 50.0 %"
    assert lines[2].startswith("tce 0.")
    assert drawn[1].legends[0].get_texts()[0].get_text().splitlines() == ["rows.csv", ", ".join(lines[1:])]


def test_events_have_their_own_words(run: Run, drawn: list[Any]) -> None:
    Path("rows.csv").write_text("p,y\n" + "0.6,1\n0.2,0\n" * 20)
    _reliability("r.png", ["rows.csv"], InputOptions(probs="p", label="y", event=True))
    drawn[0].draw_without_rendering()
    text = " ".join(name for name, _ in words(drawn[0]))
    assert "event rate" in text
    assert "accuracy" not in text


def test_dark_title_and_size(run: Run, drawn: list[Any]) -> None:
    style = plots.PictureStyle("dark", "My model", (8.0, 9.0))
    _reliability("r.png", FILES[:1], InputOptions(), style=style)
    assert drawn[0]._suptitle.get_text() == "My model"
    assert tuple(drawn[0].get_size_inches()) == (8.0, 9.0)
    assert drawn[0].get_facecolor()[:3] < (0.2, 0.2, 0.2)


def test_a_small_picture_has_a_whole_title_and_nothing_on_its_curve(run: Run, saved: list[Any]) -> None:
    title = "A title that is much longer than a picture of four inches is wide"
    _reliability("r.png", FILES[:1], InputOptions(), style=plots.PictureStyle("light", title, (4.0, 4.0)))
    (figure,) = saved
    box = figure._suptitle.get_window_extent()
    assert figure.bbox.x0 <= box.x0
    assert box.x1 <= figure.bbox.x1
    assert figure._suptitle.get_text().replace("\n", " ") == title
    assert not figure.axes[0].texts


def test_the_edges_of_the_log_odds_are_explained(run: Run, drawn: list[Any]) -> None:
    run("metrics", FILES[0], "--plot", "a.png", "--axis", "log-odds")
    run("metrics", FILES[0], "--plot", "b.png", "--axis", "confidence")
    first, second = (" ".join(t.get_text() for t in figure.legends[0].get_texts()) for figure in drawn)
    assert "(top edge: 100 %)" in first
    assert "edge" not in second


def test_the_legend_explains_the_edges_of_all_panels(run: Run, drawn: list[Any]) -> None:
    s = np.tile([0.6, 0.7, 0.8, 0.9], 60)
    np.savez("up.npz", confidence=s, hits=(s == 0.9) | (np.arange(240) % 8 < 4))
    np.savez("down.npz", confidence=s, hits=(s != 0.6) & (np.arange(240) % 8 < 4))
    run("metrics", "up.npz", "down.npz", "-m", "ece", "--plot", "a.png", "--axis", "log-odds")
    (text,) = [t.get_text() for t in drawn[0].legends[0].get_texts() if "edge" in t.get_text()]
    assert "(top edge: 100 %, bottom edge: 0 %)" in text


def test_colours_are_told_apart() -> None:
    """Up to nineteen lines, no two of them alike."""
    look = plots.looks([f"m{i}" for i in range(19)], "m7")
    assert len({(style.color, style.markerfacecolor) for style in look.values()}) == 19
    assert look["m7"].color == plots.COLOURS[0]


def test_what_cannot_be_drawn_is_refused_first() -> None:
    one = [Input("a.npz", "a.npz")]
    pictures.check_diagrams(None)
    pictures.check_diagrams("p.png")
    pictures.check_diagrams("pictures/")
    pictures.check_fits("p.png", one, False, "bpm")
    with pytest.raises(UsageError, match="second time"):
        pictures.check_fits("p.png", [Input("-", "-")], False, "bpm")
    with pytest.raises(UsageError, match="up to 12"):
        pictures.check_fits("p.png", one * 13, False, "bpm")
    pictures.check_fits("p.png", one * 13, True, "bpm")
    pictures.check_fits("p.png", one * 6, False, "auto")
    for method in ("temperature", "auto"):  # two panels each
        with pytest.raises(UsageError, match="up to 6 inputs"):
            pictures.check_fits("p.png", one * 7, False, method)
    with pytest.raises(UsageError, match="png"):
        pictures.check_diagrams("p.jpeg")


def test_many_inputs_get_a_file_each(run: Run, drawn: list[Any]) -> None:
    Path("a").mkdir()
    Path("b").mkdir()
    for name in ("a/x.csv", "b/x.csv", "y z.csv"):
        Path(name).write_text("confidence,hit\n0.9,1\n0.8,0\n0.7,1\n")
    ran = run("metrics", "a/x.csv", "b/x.csv", "y z.csv", "-m", "ece", "--plot", "pictures/")
    assert sorted(p.name for p in Path("pictures").iterdir()) == ["x-2.png", "x.png", "y_z.png"]
    assert "wrote pictures/x.png and 2 more" in ran.err


def test_more_diagrams_than_fit_one_picture(run: Run, drawn: list[Any]) -> None:
    names = [f"{i}.csv" for i in range(13)]
    for name in names:
        Path(name).write_text("confidence,hit\n0.9,1\n0.8,0\n")
    assert "--plot DIR/" in run("metrics", *names, "-m", "ece", "--plot", "p.png", code=2).err
    run("metrics", *names, "-m", "ece", "--plot", "p.png", "--overlay")


def test_options_of_a_picture(run: Run, saved: list[Any]) -> None:
    Path("a.csv").write_text("confidence,hit\n0.9,1\n0.8,0\n")
    options = ["--theme", "dark", "--title", "Mine", "--size", "5x6", "--axis", "log-odds"]
    assert "wrote p.png" in run("metrics", "a.csv", "-m", "ece", "--plot", "p.png", *options).err
    assert saved[0]._suptitle.get_text() == "Mine"
    assert tuple(saved[0].get_size_inches()) == (5.0, 6.0)
    for wrong in (["--theme", "pink"], ["--size", "5"], ["--size", "0x3"], ["--axis", "x"]):
        run("metrics", "a.csv", "--plot", "p.png", *wrong, code=2)


def test_without_matplotlib_one_line_says_how_to_get_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    ran = run("compare", "metrics", "--truth", "D1", "--plot", "m.png", code=2)
    assert ran.err.splitlines()[-1] == "  hint: pip install matplotlib"
    assert ran.out == ""
    with pytest.raises(UsageError, match="matplotlib"):
        plots.check_plot("m.pdf")


def test_matplotlib_is_imported_only_for_a_picture() -> None:
    code = (
        "import sys; from bpmcli.cli import main, pictures; import bpmcli.plots.metrics, bpmcli.plots.curves; "
        "main(['compare', 'metrics', '--truth', 'D1', '-n', '60', '--runs', '1', '-m', 'ece']); "
        "sys.exit(any(m.startswith('matplotlib') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("name", ["caf\udce9.npz", r"a$\bad{$ $x^2$.npz", "line\nbreak\x1b[31m.npz"])
def test_any_name_of_a_file_can_be_drawn(name: str, run: Run) -> None:
    """Bytes that are not UTF-8, formulas that matplotlib cannot read, and control characters."""
    rng = np.random.default_rng(0)
    s = rng.uniform(0.5, 1.0, 300)
    np.savez(name, confidence=s, hit=rng.random(300) < s)
    run("metrics", name, "-m", "ece", "--plot", "one.svg")
    run("metrics", name, FILES[0], "-m", "ece", "--plot", "both.svg", "--overlay", "--title", name)
    run("fit", name, "--method", "platt", "-o", "p.json", "--plot", "fit.svg")
    shown = {"c": r"caf\xe9.npz", "a": name, "l": r"line\nbreak\x1b[31m.npz"}[name[0]]
    for picture in ("one.svg", "both.svg", "fit.svg"):
        assert shown in Path(picture).read_text(encoding="utf-8")
