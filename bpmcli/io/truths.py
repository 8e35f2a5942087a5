"""Truths from files: a fitted curve from a parameter file, and a density from the confidences of a file."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from bpmcli.core.compare.truths import AnyTruth, EmpiricalDensity, Truth, parse_beta, truth_by_name
from bpmcli.core.curves.families import parse_curve
from bpmcli.core.curves.tce import BetaDensity
from bpmcli.core.data.sample import sample_from_log_odds
from bpmcli.errors import BpmError, DataError, UsageError
from bpmcli.io.layout import InputOptions, understand
from bpmcli.io.opening import open_reader
from bpmcli.io.params import checksum, load_params
from bpmcli.io.readers import read_rows, stream_rows

SYNTAX = "D1,D2 or FAMILY:p1,p2@a1,a2 or params.json"


def load_density(path: str, options: InputOptions) -> EmpiricalDensity:
    """The confidences of a file. It needs no labels, unless its rows are weighted."""
    if options.weight:
        return EmpiricalDensity(read_rows(path, options).rows.sample)
    try:
        source = open_reader(path, options.input_format)
        layout = understand(source, options, outcomes=False)
        parts = [rows.log_odds for _, rows in stream_rows(source, layout, options, Counter(), outcomes=False)]
    except BpmError as error:
        raise error.at(path) from None
    x = np.concatenate(parts) if parts else np.empty(0)
    if not x.size:
        raise DataError(f"{path}: no rows")
    return EmpiricalDensity(sample_from_log_odds(x, np.zeros(x.size)))


def parse_truths(
    texts: list[str], density_from: str | None = None, options: InputOptions | None = None
) -> list[AnyTruth]:
    """The truths named on the command line, each once; all with the confidences of one file if it is given."""
    found: list[AnyTruth] = []
    density = load_density(density_from, options or InputOptions()) if density_from else None
    for text in texts:
        if text.endswith(".json"):
            found.append(_from_params(text, density))
        elif ":" in text:
            found.append(_from_curve(text, density))
        else:
            parts = [part.strip() for part in text.split(",") if part.strip()]
            found += [_from_params(p, density) if p.endswith(".json") else truth_by_name(p) for p in parts]
    if density is not None and density_from:
        found = [_under(truth, density, density_from) for truth in found]
    return list({truth.name: truth for truth in found}.values())


def _under(truth: AnyTruth, density: EmpiricalDensity, path: str) -> AnyTruth:
    own = truth.name if truth.name.endswith(".json") else truth.name.partition("@")[0]
    return replace(truth, name=f"{own}@{path}", density=density, identity=f"{truth.identity or own}@{checksum(path)}")


def _from_curve(text: str, density: EmpiricalDensity | None) -> AnyTruth:
    curve, _, beta = text.partition("@")
    if beta:
        return Truth(text, parse_curve(curve), parse_beta(beta))
    if density is not None:
        return Truth(text, parse_curve(curve), density)
    raise UsageError(
        f"--truth {text}: its distribution of confidence is missing",
        f"write --truth {text}@2.77,0.04 for Beta(2.77, 0.04), or --density-from FILE",
    )


def _to_eight_digits(content: Any) -> str:
    """The content as JSON. Further digits differ between processors, and all random draws would differ with them."""
    return json.dumps(json.loads(json.dumps(content), parse_float=lambda digits: f"{float(digits):.8g}"))


def _from_params(path: str, density: EmpiricalDensity | None) -> AnyTruth:
    """The fitted curve, under the Beta density that was fitted with it."""
    params = load_params(path)
    if params.calibrator.needs_distribution:
        raise DataError(
            f"{path}: {params.method} works on all classes; a truth is a curve of one confidence",
            "fit another --method, e.g. bpm",
        )
    if params.groups is not None:
        raise DataError(f"{path}: holds a calibrator per group; a truth is one curve", "fit without --by")
    fitted: Any = (params.document.get("fit") or {}).get("density")
    identity = _to_eight_digits([params.method, params.document["parameters"], fitted])
    if density is not None:
        return Truth(path, params.calibrator, density, identity)
    try:
        beta = BetaDensity(float(fitted["a1"]), float(fitted["a2"]))
    except (KeyError, TypeError, ValueError):
        raise DataError(
            f"{path}: holds a curve but no Beta distribution of confidence",
            "--density-from FILE takes the confidences of the file it was fitted to",
        ) from None
    if not (0 < beta.a1 < np.inf and 0 < beta.a2 < np.inf):
        raise DataError(f"{path}: Beta({beta.a1}, {beta.a2}) is not a distribution")
    return Truth(path, params.calibrator, beta, identity)
