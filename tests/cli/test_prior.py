"""fit --prior: other curve families, from the fit to whatever reads its parameter file."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SAMPLE_DATA, arrays

from bpmcli.core.calibrators import band
from bpmcli.core.compare.truths import TRUTHS, simulate
from bpmcli.core.curves.families import FAMILIES, parse_curve

Run = Callable[..., Any]
VAL, TEST, OVER = (SAMPLE_DATA / f"digits_{name}.npz" for name in ("val", "test", "overconfident"))


@pytest.fixture
def d3(run: Run, unjudged: None) -> dict[str, np.ndarray]:
    """Rows of D3, whose curve is log-log and stops at 0.97."""
    drawn = simulate(TRUTHS["D3"], 4000, np.random.default_rng(0))
    columns = {"log_odds": drawn.log_odds, "hit": drawn.hits}
    np.savez("d3.npz", **columns)
    return columns


def document(path: str) -> Any:
    return json.loads(Path(path).read_text())


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "beta"])
def test_fit_stores_the_family_and_apply_evaluates_it(run, d3, family):
    ran = run("fit", "d3.npz", "--prior", family, "-o", "p.json")
    parameters = document("p.json")["parameters"]
    assert parameters.pop("family") == family
    assert family in ran.out
    assert list(parameters) == list(FAMILIES[family].parameters)
    run("apply", "p.json", "d3.npz", "-o", "out.npz")
    curve = parse_curve(family + ":" * bool(parameters) + ",".join(map(repr, parameters.values())))
    g, miss = curve(d3["log_odds"])
    inner = (g > 1e-12) & (miss > 1e-12)
    assert arrays("out.npz")["log_odds"][inner] == pytest.approx(np.log(g[inner]) - np.log(miss[inner]), rel=1e-9)


def test_beta_is_what_fit_always_wrote(run):
    assert run("fit", VAL, "--prior", "beta").out == run("fit", VAL).out
    assert "family" not in json.loads(run("fit", VAL).out)["parameters"]


@pytest.mark.usefixtures("unjudged")
def test_whole_distributions_keep_their_predicted_class(run):
    run("fit", VAL, "--prior", "log-log", "-o", "p.json")
    run("apply", "p.json", TEST, "--as", "probs", "-o", "out.npz")
    out, source = arrays("out.npz"), arrays(TEST)
    assert np.array_equal(out["probs"].argmax(axis=1), source["logits"].argmax(axis=1))


def test_groups_have_curves_of_the_family(run, d3):
    np.savez("by.npz", **d3, device=np.where(np.arange(4000) % 3 == 0, "a", "b"))
    run("fit", "by.npz", "--by", "device", "--prior", "log-log", "-o", "p.json")
    grouping = document("p.json")["grouping"]["groups"]
    assert {name: group["parameters"]["family"] for name, group in grouping.items()} == {"a": "log-log", "b": "log-log"}
    run("apply", "p.json", "by.npz", "-o", "out.npz")
    run("fit", OVER, "--classwise", "--min-group", 100, "--prior", "logit-log", "-o", "classes.json")
    run("fit", OVER, "--marginal", "--min-group", 100, "--prior", "logit-logit", "-o", "marginal.json")
    for name, family in (("classes", "logit-log"), ("marginal", "logit-logit")):
        assert document(f"{name}.json")["parameters"]["family"] == family
        run("apply", f"{name}.json", OVER, "-o", f"{name}.npz")


def test_a_summary_gives_nearly_the_same_curve(run, d3):
    run("fit", "d3.npz", "--prior", "log-log", "-o", "rows.json")
    run("fit", "d3.npz", "--summary", "--prior", "log-log", "-o", "cells.json")
    rows, cells = document("rows.json")["parameters"], document("cells.json")["parameters"]
    assert [cells["b0"], cells["b1"]] == pytest.approx([rows["b0"], rows["b1"]], abs=2e-3)


def test_the_file_is_a_truth(run, d3):
    run("fit", "d3.npz", "--prior", "log-log", "-o", "p.json")
    ran = run("compare", "metrics", "--truth", "p.json", "-n", 500, "--runs", 2, "-m", "ece", "-f", "json")
    assert json.loads(ran.out)["scores"][0]["tce"] == pytest.approx(document("p.json")["fit"]["tce"]["value"], rel=1e-9)


def test_compare_spells_it_after_the_method(run, d3):
    ran = run("compare", "curves", "--truth", "D3", "-n", 2000, "--runs", 3, "--method", "bpm:log-log", "-f", "json")
    own, other = {s["method"]: s["ead"] for s in json.loads(ran.out)["scores"]}, "bpm:log-log"
    assert own[other] < own["bpm"]
    ran = run("compare", "calibrators", "d3.npz", "--method", "bpm", "--method", other, "-m", "ece", "--repeats", 1)
    assert other in ran.out
    assert "unknown curve family 'x'" in run("compare", "calibrators", VAL, "--method", "bpm:x", code=2).err
    assert "unknown curve family 'x'" in run("compare", "curves", "--method", "bpm:x", "--truth", "D3", code=2).err


def test_band_and_picture_are_of_that_curve(run, d3, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(band, "curve_band", partial(band.curve_band, runs=60))
    np.savez("few.npz", **{name: column[:400] for name, column in d3.items()})
    run("fit", "few.npz", "--prior", "log-log", "--interval", 0.9, "--plot", "p.svg", "-o", "p.json")
    found = document("p.json")["band"]
    assert np.all(np.array(found["low"]) <= np.array(found["high"]))
    assert "90 % band" in Path("p.svg").read_text()


def test_list_has_every_family(run):
    shown = run("fit", "--prior", "list").out
    listed = json.loads(run("fit", "--prior", "list", "-f", "json").out)["families"]
    assert [family["name"] for family in listed] == list(FAMILIES)
    assert all(family["formula"] in shown for family in listed)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--prior", "cubic"], "unknown curve family 'cubic'"),
        (["--prior", "log-log", "--method", "isotonic"], "--prior is the curve family of bpm, not of isotonic"),
        (["--prior", "log-log", "--variant", "authors"], "--variant authors works with the paper's own curve family"),
        (
            ["--prior", "identity", "--optimizer", "nelder-mead"],
            "--optimizer nelder-mead works with the paper's own curve family",
        ),
        (["--method", "bpm:log-log"], "hint: --method bpm --prior log-log"),
    ],
)
def test_what_does_not_go_together_is_a_usage_error(run, options, sentence):
    assert sentence in run("fit", "nowhere.npz", *options, code=2).err


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"family": "cubic"}, "unknown curve family 'cubic'"),
        ({"b1": -1.0}, "do not describe a valid calibrator"),
        ({"b2": 1.0}, "parameters must be b0, b1, family"),
        ({"b0": None}, "parameter b0 must be a number"),
    ],
)
def test_a_spoilt_file_is_refused(run, changes, sentence):
    run("fit", VAL, "--prior", "log-log", "-o", "p.json")
    found = document("p.json")
    found["parameters"] |= changes
    Path("p.json").write_text(json.dumps(found))
    assert sentence in run("apply", "p.json", TEST, "-o", "out.npz", code=3).err
