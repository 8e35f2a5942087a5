"""One case: the files that are there, and the commands that are run one after the other."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Step:
    """A command line, what it reads from standard input, and what must hold when it has ended."""

    argv: list[str]
    stdin: bytes | None = None
    must_succeed: bool = False
    """An exit code other than 0 is a finding: the command reads what this tool has just written."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables that are set while it runs."""


@dataclass
class Case:
    """Made by a scenario from a seed, or loaded from a file."""

    name: str
    steps: list[Step]
    files: dict[str, bytes] = field(default_factory=dict)
    damaged: bool = False
    """Some file is not what its writer wrote, so other libraries may not be able to read it either."""
    why: str = ""
    """What was wrong when the case was found."""
    open: bool = False
    """It still is; a case that is no longer wrong must not say so."""

    def save(self, path: Path) -> None:
        """As a JSON file; contents of files are compressed, since a small archive may claim to be large."""
        document = {
            "why": self.why,
            "open": self.open,
            "damaged": self.damaged,
            "steps": [
                {
                    "argv": s.argv,
                    "stdin": _packed(s.stdin),
                    "must_succeed": s.must_succeed,
                    "environment": s.environment,
                }
                for s in self.steps
            ],
            "files": {name: _packed(content) for name, content in self.files.items()},
        }
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="ascii")


def load_case(path: Path) -> Case:
    """A case that was saved."""
    document = json.loads(path.read_text(encoding="ascii"))
    steps = [
        Step(s["argv"], _unpacked(s["stdin"]), s["must_succeed"], s.get("environment", {})) for s in document["steps"]
    ]
    files = {name: _unpacked(text) or b"" for name, text in document["files"].items()}
    return Case(path.stem, steps, files, document["damaged"], document["why"], document["open"])


def _packed(content: bytes | None) -> Any:
    """Readable text stays readable."""
    if content is None:
        return None
    if content.isascii() and content.decode("ascii").isprintable() | (b"\n" in content and b"\0" not in content):
        return {"text": content.decode("ascii")}
    return {"zlib": base64.b64encode(zlib.compress(content, 9)).decode("ascii")}


def _unpacked(packed: Any) -> bytes | None:
    if packed is None:
        return None
    if "text" in packed:
        return bytes(packed["text"], "ascii")
    return zlib.decompress(base64.b64decode(packed["zlib"]))
