"""A new metric is one decorated function: every command then knows it, whatever it does not say about itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from bpmcli.core.data.binning import make_bins
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Sample
from bpmcli.core.metrics import METRICS
from bpmcli.core.metrics.class_definitions import WHOLE
from bpmcli.core.metrics.registry import Measured, MetricOptions, metric

Run = Callable[..., Any]
NAMES = ("largest-gap", "top-share")


@pytest.fixture(autouse=True)
def new_metrics() -> Iterator[None]:
    """One metric of the confidence and one of whole distributions; neither estimates the mean calibration error."""
    before = dict(METRICS)

    @metric("largest-gap", "largest gap of a bin", "-", calibration_error=False)
    def largest_gap(sample: Sample, options: MetricOptions) -> Measured:
        return Measured(float(np.abs(make_bins(sample, options.n_bins, options.binning).gaps).max()))

    @metric("top-share", "share of the most frequent label", "-", **WHOLE)
    def top_share(rows: Rows, options: MetricOptions) -> Measured:
        assert rows.labels is not None
        return Measured(float(np.bincount(rows.labels).max()) / rows.n)

    yield
    METRICS.clear()
    METRICS.update(before)


@pytest.fixture
def files() -> tuple[str, str]:
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(300, 3))
    labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    for name, scale in (("a.npz", 1.0), ("b.npz", 3.0)):
        np.savez(name, logits=scale * z, labels=labels, site=np.arange(300) % 100, id=np.arange(300))
    return "a.npz", "b.npz"


@pytest.mark.parametrize("more", [(), ("--noise-floor", "--noise-runs", 5), ("--cluster", "site"), ("--classwise",)])
def test_it_is_measured_with_every_option(run: Run, files: tuple[str, str], more: tuple[object, ...]) -> None:
    intervals = ("--interval", 0.9, "--resamples", 40)
    out = run("metrics", "b.npz", "-m", ",".join(NAMES), *intervals, *more, "-f", "json").out
    found = json.loads(out)["results"][0]["metrics"]
    assert found["largest-gap"]["low"] < found["largest-gap"]["value"] < found["largest-gap"]["high"]
    assert found["top-share"]["value"] > 1 / 3


@pytest.mark.parametrize("cluster", [(), ("--cluster", "site")])
def test_differences_of_confidences_have_an_interval(
    run: Run, files: tuple[str, str], cluster: tuple[object, ...]
) -> None:
    argv = ("compare", "metrics", *files, "--paired", "-m", ",".join(NAMES), "--resamples", 40)
    gap, share = json.loads(run(*argv, *cluster, "-f", "json").out)["differences"]
    assert gap["low"] < gap["difference"] < gap["high"]
    assert share["difference"] == 0
    assert share["low"] is share["high"] is share["p_value"] is None


def test_baselines_keep_it(run: Run, files: tuple[str, str]) -> None:
    first, second = files
    limits = [part for name in NAMES for part in ("--max-increase", f"{name}=0.01")]
    for ids in ((), ("--id", "id")):
        run("metrics", first, "-m", ",".join(NAMES), *ids, "--save-baseline", "base.json")
        ran = run("metrics", second, *ids, "--baseline", "base.json", *limits, code=1)
        assert "largest-gap" in ran.err
        assert "top-share" in ran.err
        run("metrics", first, *ids, "--baseline", "base.json", *limits)


def test_gates_know_it(run: Run, files: tuple[str, str]) -> None:
    for name in NAMES:
        run("metrics", "b.npz", "--fail-above", f"{name}=0.001", code=1)
        run("metrics", "b.npz", "--fail-above", f"{name}=0.999")
