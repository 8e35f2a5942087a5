"""Rows in clusters: resampling against a direct loop, the design effect against theory."""

from __future__ import annotations

import numpy as np
import pytest

from bpmcli.core.data.categorical import Categorical, categorical
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import sample_from_log_odds
from bpmcli.core.metrics import MetricOptions, measure
from bpmcli.core.metrics.clusters import clustered
from bpmcli.core.metrics.intervals import metric_intervals, resampled_values
from bpmcli.core.metrics.verdict import verdict
from bpmcli.errors import DataError

OPTIONS = MetricOptions()


def drawn(clusters: int, size: int, seed: int = 0, shift: float = -0.4) -> Rows:
    """Clusters of different sizes whose outcomes share a random effect."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 2 * size, clusters)
    code = np.repeat(np.arange(clusters), sizes)
    x = rng.normal(1.5, 1.0, code.size)
    effect = rng.normal(0, 1.5, clusters)[code]
    hits = rng.random(code.size) < 1 / (1 + np.exp(-(x + shift + effect)))
    return Rows(x, hits, clusters=Categorical([str(i) for i in range(clusters)], code))


def copies(times: int, n: int = 300, seed: int = 1) -> Rows:
    """Every row so many times."""
    rng = np.random.default_rng(seed)
    x = rng.normal(1.5, 1.0, n)
    hits = rng.random(n) < 1 / (1 + np.exp(-0.6 * x))
    return Rows(np.repeat(x, times), np.repeat(hits, times), clusters=categorical([str(i // times) for i in range(n * times)]))  # fmt: skip


@pytest.mark.parametrize("metric", ["ece", "ks", "smece", "ece-sweep"])
@pytest.mark.parametrize("weighted", [False, True])
def test_resamples_are_those_of_a_loop_over_clusters(metric, weighted):
    rows = drawn(60, 6)
    weights = np.random.default_rng(5).random(rows.n) + 0.2 if weighted else None
    rows = Rows(rows.log_odds, rows.hits, weights, clusters=rows.clusters)
    _, cells = clustered(rows)
    found = resampled_values(cells.cells, [metric], OPTIONS, 200, 0, cells)[metric]
    members = [index for _, index in rows.clusters.positions()]
    rng, direct = np.random.default_rng(9), []
    for _ in range(200):
        index = np.concatenate([members[i] for i in rng.integers(0, len(members), len(members))])
        again = sample_from_log_odds(
            rows.log_odds[index], rows.hits[index], None if weights is None else weights[index]
        )
        direct.append(measure(again, [metric], OPTIONS)[metric].value)
    # Two sets of 200 resamples: means agree within 4 standard errors, spreads within a fifth.
    assert abs(found.mean() - np.mean(direct)) < 4 * np.hypot(found.std(), np.std(direct)) / 14 + 0.002
    assert found.std() == pytest.approx(np.std(direct), rel=0.2)


def test_one_resample_by_hand():
    rows = drawn(30, 4)
    _, cells = clustered(rows)
    times = np.random.default_rng(3).multinomial(30, np.full(30, 1 / 30))
    resample = cells.draw(1, np.random.default_rng(3))
    often = times[rows.clusters.codes]
    assert resample.mass.sum() == pytest.approx(rows.n)
    assert resample.hits.sum() == pytest.approx(rows.n * (often @ rows.hits) / often.sum())


def test_copies_count_once():
    for times in (2, 5):
        rows = copies(times)
        sample, cells = clustered(rows)
        assert cells.size == 300
        assert sample.n == 300 * times
        assert sample.effective_n == pytest.approx(300, rel=0.01)
        single = Rows(rows.log_odds[::times], rows.hits[::times])
        assert measure(sample, ["tce"])["tce"].value == pytest.approx(measure(single.sample, ["tce"])["tce"].value, abs=2e-3)  # fmt: skip
        for metric in ("tce", "ece", "ks"):
            values = {metric: measure(sample, [metric])[metric].value}
            found = metric_intervals(sample, values, OPTIONS, 0.95, 1000, 0, cells)[metric]
            alone = metric_intervals(single.sample, {metric: measure(single.sample, [metric])[metric].value}, OPTIONS)[metric]  # fmt: skip
            assert found.low == pytest.approx(alone.low, abs=0.012)
            assert found.high == pytest.approx(alone.high, abs=0.012)


def test_every_row_its_own_cluster_changes_little():
    rng = np.random.default_rng(2)
    x = rng.normal(1.5, 1.0, 2000)
    rows = Rows(x, rng.random(2000) < 1 / (1 + np.exp(-0.6 * x)), clusters=categorical([str(i) for i in range(2000)]))
    sample, cells = clustered(rows)
    assert sample.effective_n == pytest.approx(2000, rel=0.01)
    values = {name: measure(sample, [name])[name].value for name in ("tce", "ece")}
    found, plain = (
        metric_intervals(sample, values, OPTIONS, clusters=cells),
        metric_intervals(rows.sample, values, OPTIONS),
    )
    for name in values:
        assert found[name].low == pytest.approx(plain[name].low, abs=0.004)
        assert found[name].high == pytest.approx(plain[name].high, abs=0.004)


def test_the_design_effect_of_a_random_effect():
    # Equal clusters of 20 with intraclass correlation ρ of the outcomes: deff = 1 + 19 ρ.
    rng = np.random.default_rng(4)
    clusters, size = 400, 20
    code = np.repeat(np.arange(clusters), size)
    shared = rng.random(clusters) < 0.7
    own = rng.random(code.size) < 0.7
    same = rng.random(code.size) < 0.5  # two rows agree by design if both take the shared outcome: ρ = 0.25
    hits = np.where(same, shared[code], own)
    rows = Rows(np.full(code.size, np.log(7 / 3)) + rng.normal(0, 1e-3, code.size), hits, clusters=Categorical([str(i) for i in range(clusters)], code))  # fmt: skip
    sample, _ = clustered(rows)
    assert code.size / sample.effective_n == pytest.approx(1 + 19 * 0.25, rel=0.25)


def test_the_verdict_does_not_count_copies():
    rng = np.random.default_rng(11)
    x = rng.normal(1.0, 1.0, 40)
    hits = rng.random(40) < 1 / (1 + np.exp(-x))
    rows = Rows(np.repeat(x, 50), np.repeat(hits, 50), clusters=categorical([str(i // 50) for i in range(2000)]))
    assert verdict(rows.sample).name not in ("calibrated", "too-few-rows"), "copies look like evidence"
    assert verdict(clustered(rows)[0]).name in ("calibrated", "too-few-rows")


def test_one_cluster_says_nothing():
    rows = drawn(2, 20)
    with pytest.raises(DataError, match="one cluster"):
        clustered(Rows(rows.log_odds, rows.hits, clusters=Categorical(["a"], np.zeros(rows.n, dtype=np.int64))))


@pytest.mark.parametrize("names", ["{}", "user-{}", "{:03}"])
def test_intervals_do_not_depend_on_how_clusters_are_stored(names):
    """Formats list the names of clusters in the order of their rows, of the alphabet or of the first batch."""
    rows = drawn(40, 12)
    assert rows.clusters is not None
    texts = [names.format(int(name)) for name in rows.clusters.tolist()]
    order = np.random.default_rng(3).permutation(rows.n)
    stored = [
        categorical(texts),
        Categorical(["unused", *sorted(set(texts))], np.unique(texts, return_inverse=True)[1] + 1),
    ]
    versions = [rows._replace(clusters=clusters) for clusters in stored]
    versions.append(versions[0].take(order))
    found = []
    for version in versions:
        sample, cells = clustered(version)
        limits = metric_intervals(
            sample, {"ece": measure(sample, ["ece"])["ece"].value}, OPTIONS, runs=50, clusters=cells
        )["ece"]
        assert limits is not None
        found.append((limits.low, limits.high, sample.effective_n))
    assert set(found) == {found[0]}
