"""The parameter file: a fitted calibrator as versioned JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bpmcli import __version__
from bpmcli.core.calibrators import METHODS, Calibrator, Fitted
from bpmcli.core.rows import Rows
from bpmcli.errors import BpmError, DataError

SCHEMA = "bpmcli/calibrator"
VERSION = 1


@dataclass(frozen=True)
class Params:
    """What `apply` needs of a parameter file."""

    method: str
    calibrator: Calibrator
    target: str
    document: Mapping[str, Any]


def checksum(path: str) -> str | None:
    """sha256 of a file; None for standard input."""
    if path == "-":
        return None
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def describe(method: str, fitted: Fitted, rows: Rows, inputs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The document that `fit` writes."""
    sample = rows.sample
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "tool": f"bpmcli {__version__}",
        "method": method,
        "target": rows.target,
        "parameters": fitted.calibrator.parameters(),
        "fit": dict(fitted.report),
        "sample": {
            "n": sample.n,
            "accuracy": sample.accuracy,
            "mean_confidence": sample.mean_confidence,
            "weighted": sample.weighted,
        },
        "inputs": list(inputs),
        "notices": [str(n) for n in fitted.notices],
    }


def dumps(document: Any) -> str:
    """JSON with full precision; NaN and infinity never reach it."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def load_params(path: str) -> Params:
    """Read and check a parameter file."""
    try:
        document = load_document(path, SCHEMA, VERSION, "written by `bpmcli fit`")
        method = document.get("method")
        if method not in METHODS:
            raise DataError(f"unknown method '{method}'", "known: " + ", ".join(METHODS))
        parameters = document.get("parameters")
        if not isinstance(parameters, dict):
            raise DataError("'parameters' is missing", "is this file written by `bpmcli fit`?")
        target = document.get("target")
        if target not in ("top-label", "event"):
            raise DataError(f"'target' is {target!r}, not 'top-label' or 'event'")
        try:
            calibrator = METHODS[method].calibrator.from_parameters(parameters)
        except TypeError as error:
            raise DataError(f"bad parameters: {error}") from None
        return Params(method, calibrator, target, document)
    except BpmError as error:
        raise error.at(path) from None


def load_document(path: str, schema: str, version: int, origin: str) -> dict[str, Any]:
    """A JSON document of ours: right schema, a version this tool knows."""
    try:
        with open(path, encoding="utf-8") as f:
            document = json.load(f, parse_constant=_refuse_constant)
    except FileNotFoundError:
        raise DataError("no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read ({getattr(error, 'strerror', None) or 'not text'})") from None
    except json.JSONDecodeError as error:
        raise DataError(f"is not JSON (line {error.lineno}: {error.msg})", f"give a file {origin}") from None
    if not isinstance(document, dict) or document.get("schema") != schema:
        found = document.get("schema") if isinstance(document, dict) else None
        raise DataError(f"is not a {schema} file" + (f" but {found}" if found else ""), f"give a file {origin}")
    if not isinstance(document.get("version"), int) or document["version"] < 1:
        raise DataError(f"'version' is {document.get('version')!r}")
    if document["version"] > version:
        raise DataError(
            f"has version {document['version']}, and this bpmcli ({__version__}) reads up to {version}",
            "upgrade: pip install -U bpmcli",
        )
    return document


def _refuse_constant(name: str) -> float:
    raise DataError(f"holds {name}, which is not a number")
