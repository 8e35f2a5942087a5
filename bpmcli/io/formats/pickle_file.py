"""Pickles: loading one can run any code, so they are refused with the line that converts them."""

from __future__ import annotations

import os
import shlex
from typing import ClassVar

from bpmcli.errors import DataError
from bpmcli.io.formats import reads
from bpmcli.io.formats.free_name import free_name
from bpmcli.io.formats.reader import Reader

CONVERT = {
    "torch": "import numpy, torch; d = torch.load({path!r}, weights_only=True, map_location='cpu'); "
    "numpy.savez({out!r}, **{{k: v.float().numpy() if v.is_floating_point() else v.numpy() for k, v in d.items()}})",
    "joblib": "import joblib, numpy; numpy.savez({out!r}, **joblib.load({path!r}))",
    "pickle": "import numpy, pickle; numpy.savez({out!r}, **pickle.load(open({path!r}, 'rb')))",
}
"""For a dictionary of arrays, run on a file that you trust."""


@reads("pickle", ".pkl", ".pickle", ".joblib", ".pt", ".pth", ".ckpt")
class PickleReader(Reader):
    """Never loads anything."""

    refused: ClassVar[bool] = True
    in_folders: ClassVar[bool] = False
    containers: ClassVar[tuple[bytes, ...]] = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x78")
    """torch.save writes a zip archive, joblib may compress."""

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        return start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")

    def inspect(self) -> None:
        suffix = os.path.splitext(self.path)[1].lower()
        kind = "torch" if suffix in (".pt", ".pth", ".ckpt") else "joblib" if suffix == ".joblib" else "pickle"
        line = CONVERT[kind].format(path=self.path, out=free_name(self.path, ".npz"))
        raise DataError(
            "is a pickle, which can run code when it is loaded; bpmcli never loads one",
            f"if you trust it, convert it: python -c {shlex.quote(line)}",
        )
