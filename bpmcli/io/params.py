"""The parameter file: a fitted calibrator as versioned JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bpmcli import __version__
from bpmcli.core.calibrators import METHODS, Calibrator, Fitted
from bpmcli.core.calibrators.grouped import GroupFit, Groups, load_groups
from bpmcli.core.data.rows import Rows
from bpmcli.errors import BpmError, DataError
from bpmcli.io.documents import dumps, load_document

SCHEMA = "bpmcli/calibrator"
VERSION = 2
"""2: with a calibrator per group. Files without groups stay at 1, which every release reads."""


@dataclass(frozen=True)
class Params:
    """What `apply` needs of a parameter file."""

    method: str
    calibrator: Calibrator
    target: str
    document: Mapping[str, Any]
    groups: Groups | None = None
    """Calibrators of their own; `calibrator` is for all other groups."""


def checksum(path: str) -> str | None:
    """sha256 of a file; None for standard input and remote files."""
    if path == "-" or "://" in path:
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
) -> dict[str, Any]:
    """The document that `fit` writes."""
    sample = rows.sample
    return {
        "schema": SCHEMA,
        "version": VERSION if groups else 1,
        "tool": f"bpmcli {__version__}",
        "method": method,
        "target": rows.target,
        "parameters": fitted.calibrator.parameters(),
        "fit": dict(fitted.report),
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
    """Read and check a parameter file."""
    try:
        document = load_document(path, SCHEMA, VERSION, "written by `bpmcli fit`")
        method = document.get("method")
        if not isinstance(method, str) or method not in METHODS:
            raise DataError(f"unknown method '{method}'", "known: " + ", ".join(METHODS))
        parameters = document.get("parameters")
        if not isinstance(parameters, dict):
            raise DataError("'parameters' is missing", "is this file written by `bpmcli fit`?")
        target = document.get("target")
        if target not in ("top-label", "event"):
            raise DataError(f"'target' is {target!r}, not 'top-label' or 'event'")
        try:
            calibrator = METHODS[method].calibrator.from_parameters(parameters)
            grouping = document.get("grouping")
            groups = None if grouping is None else load_groups(grouping, method)
        except TypeError as error:
            raise DataError(f"bad parameters: {error}") from None
        return Params(method, calibrator, target, document, groups)
    except BpmError as error:
        raise error.at(path) from None


__all__ = ["Params", "checksum", "describe", "dumps", "load_params"]
