"""No calibrator returns a probability of 0, so no label costs an infinite log loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import arrays

from bpmcli.core.calibrators import METHODS, FitOptions, fit_calibrator
from bpmcli.core.calibrators.base import LEAST
from bpmcli.core.calibrators.distributions import calibrate_distributions
from bpmcli.core.calibrators.grouped import MARGINAL, Grouping, fit_groups
from bpmcli.core.calibrators.marginal import calibrate_marginals
from bpmcli.core.calibrators.spread import IN_PROPORTION, fit_spread
from bpmcli.core.compare.scores import Judge
from bpmcli.core.data.log_odds import reduce_logits
from bpmcli.core.data.rows import EVENT, Rows

pytestmark = pytest.mark.usefixtures("unjudged")

Run = Callable[..., Any]
BOUNDED = [name for name in METHODS if name != "identity"]
CURVES = [name for name in BOUNDED if not METHODS[name].needs_distribution]


def neighbours(n: int, seed: int, certain: bool) -> Rows:
    """Shares of 15 neighbours, many of them exactly 0 and 1; `certain` rows are nearly always right."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=n)
    concentration = np.full((n, 3), 0.02)
    concentration[np.arange(n), labels] = 3.0 if certain else 0.2
    counts = np.array([rng.multinomial(15, rng.dirichlet(row)) for row in concentration])
    with np.errstate(divide="ignore"):
        z = np.log(counts / 15)
    reduced = reduce_logits(z)
    hits = reduced.predictions == labels
    return Rows(reduced.log_odds, hits, None, reduced.predictions, labels, None, z, True)


@pytest.mark.parametrize("method", BOUNDED)
def test_whole_distributions_give_every_label_a_chance(method: str) -> None:
    fitting, new = neighbours(600, 0, True), neighbours(600, 1, False)
    calibrator = fit_calibrator(method, fitting).calibrator
    spread = (fit_spread(fitting) if calibrator.spreads else None) or IN_PROPORTION
    assert new.logits is not None
    assert new.predictions is not None
    for free in (False, True):
        done = calibrate_distributions(calibrator, new.logits, new.log_odds, new.predictions, free, spread)
        assert done.probs.min() >= LEAST / 2
        np.testing.assert_allclose(done.probs.sum(axis=1), 1.0, rtol=1e-12)
        if calibrator.spreads and not free:
            # Nor is the predicted class surer than the floor allows.
            top = done.probs[np.arange(new.n), new.predictions]
            assert top.max() <= 1.0 - spread.floor * (1 - 1e-9)
    assert np.isfinite(Judge(new).confidences(calibrator, spread).scores(["nll-all"], FitOptions().metrics)["nll-all"])


@pytest.mark.parametrize("method", CURVES)
def test_so_do_marginal_curves(method: str) -> None:
    fitting, new = neighbours(600, 0, True), neighbours(600, 1, False)
    found = fit_groups(method, fitting, FitOptions(), Grouping(MARGINAL, None, 20))
    fits, pooled = {name: fit.calibrator for name, fit in found.fits.items()}, found.pooled.calibrator
    done = calibrate_marginals(lambda k: fits.get(k, pooled), new, floor=1 / 1200)
    assert done.probs.min() >= 1 / 1200 / 3 / 3


@pytest.mark.parametrize("method", BOUNDED)
def test_a_single_probability_stays_inside_zero_and_one(run: Run, method: str) -> None:
    """Also where a file holds P(y = 1) alone, and P(y = 0) is what is left of it."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0, 9, 300), np.full(40, 40.0), np.full(40, -40.0)])
    y = (x + 3 * rng.logistic(size=x.size) > 0).astype(int)
    np.savez("p.npz", probs=1 / (1 + np.exp(-x)), labels=y)
    assert arrays("p.npz")["probs"].max() == 1.0
    run("fit", "p.npz", "--event", "--method", method, "-o", "p.json")
    run("apply", "p.json", "p.npz", "-o", "out.npz")
    p = arrays("out.npz")["probs"]
    assert p.min() > 0.0
    assert p.max() < 1.0


def test_the_identity_leaves_zeros_and_ones_alone_and_log_odds_lose_nothing() -> None:
    x = np.array([-700.0, 0.0, 700.0])
    g, miss = METHODS["identity"].calibrator().probabilities_within(x)
    assert g[2] == 1.0
    assert g[0] == miss[2] < 1e-300
    rng = np.random.default_rng(0)
    z = rng.normal(size=400)
    platt = fit_calibrator("platt", Rows(z, z + rng.logistic(size=400) > 0, target=EVENT)).calibrator
    assert platt(x)[1][2] < 1e-200
    assert platt.probabilities_within(x)[1][2] == LEAST
