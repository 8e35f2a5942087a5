"""The parameter file: a fitted calibrator as versioned JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bpmcli import __version__
from bpmcli.core.calibrators import METHODS, Calibrator, Fitted
from bpmcli.core.calibrators.grouped import GroupFit, Groups, load_groups
from bpmcli.core.calibrators.spread import IN_PROPORTION, Spread
from bpmcli.core.data.rows import Rows
from bpmcli.errors import BpmError, DataError
from bpmcli.io.document_kinds import CALIBRATOR
from bpmcli.io.documents import dumps, inside, load_document


@dataclass(frozen=True)
class Params:
    """What `apply` needs of a parameter file."""

    method: str
    calibrator: Calibrator
    target: str
    document: Mapping[str, Any]
    groups: Groups | None = None
    """Calibrators of their own; `calibrator` is for all other groups."""
    spread: Spread = IN_PROPORTION
    """How the other classes share what the predicted class leaves; files of earlier releases do not say."""


def checksum(path: str) -> str | None:
    """sha256 of a file; None for streams and remote files."""
    from bpmcli.io.streams import is_stream

    if "://" in path or is_stream(path):
        return None
    import hashlib

    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def describe(
    method: str,
    fitted: Fitted,
    rows: Rows,
    inputs: Sequence[Mapping[str, Any]],
    groups: GroupFit | None = None,
    spread: Spread | None = None,
) -> dict[str, Any]:
    """The document that `fit` writes."""
    sample = rows.sample
    return {
        "schema": CALIBRATOR.schema,
        "version": CALIBRATOR.version if groups else 1,
        "tool": f"bpmcli {__version__}",
        "method": method,
        "target": rows.target,
        "parameters": fitted.calibrator.parameters(),
        "fit": dict(fitted.report),
        **({"spread": spread._asdict()} if spread else {}),
        **({"grouping": groups.document()} if groups else {}),
        "sample": {
            "n": sample.n,
            "accuracy": sample.accuracy,
            "mean_confidence": sample.mean_confidence,
            "weighted": sample.weighted,
        },
        "inputs": list(inputs),
        "notices": [str(n) for n in fitted.notices],
    }


def load_params(path: str) -> Params:
    """Read and check a parameter file, local or remote."""
    try:
        return params_of(load_document(path, CALIBRATOR))
    except BpmError as error:
        raise error.at(path) from None


def params_of(document: Mapping[str, Any]) -> Params:
    """The calibrators that a checked document describes."""
    method = document["method"]
    if method not in METHODS:
        raise DataError(f"method: '{method}' is unknown", "known: " + ", ".join(METHODS))
    with inside("parameters"):
        calibrator = METHODS[method].calibrator.from_parameters(document["parameters"])
    grouping = document.get("grouping")
    with inside("grouping"):
        groups = None if grouping is None else load_groups(grouping, method)
    found = document.get("spread")
    spread = IN_PROPORTION if found is None else Spread(found["temperature"], found["floor"])
    return Params(method, calibrator, document["target"], document, groups, spread)


__all__ = ["Params", "checksum", "describe", "dumps", "load_params"]
