"""The parameter file: a fitted calibrator as versioned JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bpmcli.core.calibrators import METHODS, Calibrator
from bpmcli.core.calibrators.grouped import GroupCalibrators, load_groups
from bpmcli.core.calibrators.recalibration import Recalibration
from bpmcli.core.calibrators.spread import IN_PROPORTION, Spread
from bpmcli.errors import BpmError, DataError
from bpmcli.io.column_choice import InputOptions
from bpmcli.io.document_kinds import CALIBRATOR, REMEMBERED
from bpmcli.io.documents import built_at, load_document
from bpmcli.io.formats import file_and_group
from bpmcli.io.label_files import file_and_column
from bpmcli.io.opening import is_stream
from bpmcli.io.paths import Input

CHECKED_BYTES = 1 << 24
"""Larger inputs of a summary are read only once, so they have no checksum."""

COMPARED_BYTES = 1 << 28
"""Larger files are not compared with the files a calibrator was fitted to: reading them again takes too long."""


@dataclass(frozen=True)
class Params:
    """The content of a parameter file, as `apply` needs it."""

    method: str
    calibrator: Calibrator
    target: str
    document: Mapping[str, Any]
    groups: GroupCalibrators | None = None
    """The calibrators of single groups; `calibrator` is for all other groups."""
    spread: Spread = IN_PROPORTION
    """How the other classes share the remaining probability; missing in files of earlier releases."""

    @property
    def columns(self) -> dict[str, str]:
        """The options of the input that were given to `fit`; missing in files of earlier releases."""
        found = self.document.get("columns") or {}
        return {name: value for name in REMEMBERED if (value := found.get(name)) is not None}

    @property
    def classes(self) -> int | None:
        """The number of classes of the rows it was fitted to; None if unknown, as in files of earlier releases."""
        return (self.document.get("sample") or {}).get("classes")

    def fitted_to(self, path: str) -> bool:
        """Whether the calibrator was fitted to this file. Streams, remote and very large files are not checked."""
        if not os.path.isfile(path) or is_stream(path):
            return False
        size = os.path.getsize(path)
        # Only a file of the same size is read again; files of earlier releases do not store sizes.
        alike = (item for item in self.document.get("inputs") or () if item.get("bytes", size) == size)
        known = {item["sha256"] for item in alike if item.get("sha256")}
        return bool(known) and size <= COMPARED_BYTES and checksum(path) in known

    def recalibration(self, allow_argmax_change: bool = False, exact: bool = False) -> Recalibration:
        """What these parameters do to rows."""
        return Recalibration(self.method, self.calibrator, self.groups, self.spread, allow_argmax_change, exact)


def _remembered(options: InputOptions) -> dict[str, str]:
    """The options of an input that apply to other files as well: names of columns and the scale, not file names."""
    found = {name: value for name in REMEMBERED if (value := getattr(options, name)) is not None}
    if "label" in found and file_and_column(found["label"])[0]:
        del found["label"]
    return found


def checksum(path: str) -> str | None:
    """sha256 of a file; None for streams, remote files and parts of a file (`file.h5::group`)."""
    if "://" in path or is_stream(path) or file_and_group(path)[1]:
        return None
    import hashlib

    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def origin_of_rows(items: Sequence[Input], options: InputOptions, reduced: bool) -> dict[str, Any]:
    """Name and checksum of each input, and how its columns were found, as a parameter file stores them.

    `reduced`: the rows became a summary, so the inputs were read only once.
    """
    sums = [None if reduced and _is_costly(item.place) else checksum(item.place) for item in items]
    inputs = [
        {"name": item.path, "sha256": found, **({"bytes": os.path.getsize(item.place)} if found else {})}
        for item, found in zip(items, sums, strict=True)
    ]
    columns = _remembered(options)
    return {"inputs": inputs, **({"columns": columns} if columns else {})}


def _is_costly(path: str) -> bool:
    return "://" in path or (not is_stream(path) and os.path.getsize(path) > CHECKED_BYTES)


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
    calibrator = built_at("parameters", METHODS[method].calibrator.from_parameters, document["parameters"])
    grouping = document.get("grouping")
    groups = None if grouping is None else built_at("grouping", load_groups, grouping, method)
    found = document.get("spread")
    spread = IN_PROPORTION if found is None else Spread(found["temperature"], found["floor"])
    return Params(method, calibrator, document["target"], document, groups, spread)
