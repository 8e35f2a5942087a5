"""Coefficients of the linear calibrators by public packages, for tests/oracles/linear.json.

    python benchmarks/oracle_linear.py -o tests/oracles/linear.json
    (needs probmetrics with torch, and dirichletcal with jax)

The data are simulated here, and the test simulates them in the same way. probmetrics rounds logits to float32 and
stops at a gradient of 1e-5, which leaves its coefficients about 0.001 from its own optimum. Two sets are stored: of the
package as it is shipped, and of the same code with float64 logits and a solver that runs until it converges.
dirichletcal is run with ref_row = False: by default it subtracts the last row of the matrix before it is penalised,
which is not the penalty of the paper.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

# numba, which probmetrics needs, looks for the package `coverage` and would find benchmarks/coverage.py.
sys.modules.setdefault("coverage", None)  # type: ignore[arg-type]


def simulated(n: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of an over-confident model with unequal slopes and shifts, and labels."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, k))
    z[np.arange(n), rng.integers(k, size=n)] += 2.0
    truth = z * np.linspace(0.4, 0.8, k) + np.linspace(-0.5, 0.5, k) + 0.2 * z @ np.eye(k)[:, ::-1]
    labels = (truth + rng.gumbel(size=z.shape)).argmax(axis=1)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True), labels


CASES = {"three": (600, 3, 0), "six": (3000, 6, 1)}


def probmetrics_values(p: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Coefficients as shipped, and with logits in float64 and a solver that runs until it converges."""
    import torch
    from probmetrics.calibrators import logistic

    shipped = _coefficients(p, y)
    original = logistic.torchmin.minimize, logistic.multiclass_probs_to_logits, torch.get_default_dtype()

    def minimise(loss: Any, start: torch.Tensor, method: str) -> Any:
        return original[0](
            loss, start, method=method, options={"gtol": 1e-8, "xtol": 0.0, "gtd_tol": 1e-20}, max_iter=5000
        )

    torch.set_default_dtype(torch.float64)
    logistic.torchmin.minimize, logistic.multiclass_probs_to_logits = minimise, np.log
    try:
        return _coefficients(p, y) | {"as_shipped": shipped}
    finally:
        logistic.torchmin.minimize, logistic.multiclass_probs_to_logits = original[:2]
        torch.set_default_dtype(original[2])


def _coefficients(p: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    from probmetrics.calibrators import logistic

    vector = logistic.VectorScalingCalibrator().fit(p, y)
    matrix = logistic.MatrixScalingCalibrator().fit(p, y)
    svs, sms = logistic.SVSCalibrator().fit(p, y), logistic.SMSCalibrator().fit(p, y)
    return {
        "vector": {"slopes": (1 / vector.temp_).tolist(), "shifts": vector.bias_.tolist()},
        "matrix": {"matrix": matrix.itemp_.T.tolist(), "shifts": matrix.bias_.tolist()},
        "structured-vector": {"slopes": svs.v_.tolist(), "shifts": svs.b_.tolist()},
        "structured-matrix": {"matrix": sms.W_[:, :-1].tolist(), "shifts": sms.W_[:, -1].tolist()},
    }


def dirichlet_values(p: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    from dirichletcal.calib.multinomial import MultinomialRegression

    model = MultinomialRegression(method="Full", reg_lambda=1e-3, reg_mu=1e-3, ref_row=False).fit(np.log(p), y)
    return {"dirichlet": {"matrix": np.asarray(model.coef_).tolist(), "shifts": np.asarray(model.intercept_).tolist()}}


def differences(p: np.ndarray, y: np.ndarray, wanted: dict[str, Any]) -> dict[str, float]:
    """The largest difference of our coefficients from the packages'."""
    from bpmcli.core.calibrators import fit_calibrator
    from bpmcli.core.data.log_odds import reduce_probs
    from bpmcli.core.data.rows import Rows

    reduced = reduce_probs(p)
    rows = Rows(reduced.log_odds, reduced.predictions == y, None, reduced.predictions, y, None, np.log(p), True)
    found = {}
    for name in ("vector", "matrix", "structured-vector", "structured-matrix", "dirichlet"):
        ours = fit_calibrator(name, rows).calibrator.parameters()
        for kind, theirs in (("", wanted), (" as shipped", wanted["as_shipped"])):
            if name in theirs:
                gaps = [np.abs(np.array(ours[key]) - np.array(theirs[name][key])).max() for key in theirs[name]]
                found[name + kind] = float(max(gaps))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    packages = ("numpy", "scipy", "torch", "probmetrics", "dirichletcal", "jax")
    versions = {name: importlib.metadata.version(name) for name in packages}
    document: dict[str, Any] = {"made_by": "benchmarks/oracle_linear.py", "versions": versions, "cases": {}}
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    for name, case in CASES.items():
        p, y = simulated(*case)
        found = probmetrics_values(p, y) | dirichlet_values(p, y)
        document["cases"][name] = {"case": case} | found
        for method, gap in differences(p, y, found).items():
            print(f"{name:8} {method:32} {gap:.1e}")
    if options.output:
        options.output.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
