"""Our JSON documents: a schema name, a version, full precision, never NaN."""

from __future__ import annotations

import json
from typing import Any

from bpmcli import __version__
from bpmcli.errors import DataError


def dumps(document: Any) -> str:
    """JSON with full precision; NaN and infinity never reach it."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def load_document(path: str, schema: str, version: int, origin: str) -> dict[str, Any]:
    """A JSON document of ours: right schema, a version this tool knows."""
    try:
        with open(path, encoding="utf-8") as f:
            document = json.load(f, parse_constant=_refuse_constant)
    except FileNotFoundError:
        raise DataError("no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not text"
        raise DataError(f"cannot be read ({why})", f"give a file {origin}") from None
    except (json.JSONDecodeError, RecursionError, ValueError) as error:
        where = "nested too deeply, or a number too long"
        if isinstance(error, json.JSONDecodeError):
            where = f"line {error.lineno}: {error.msg}"
        raise DataError(f"is not JSON ({where})", f"give a file {origin}") from None
    if not isinstance(document, dict) or document.get("schema") != schema:
        found = document.get("schema") if isinstance(document, dict) else None
        raise DataError(f"is not a {schema} file" + (f" but {found}" if found else ""), f"give a file {origin}")
    if type(document.get("version")) is not int or document["version"] < 1:
        raise DataError(f"'version' is {document.get('version')!r}")
    if document["version"] > version:
        raise DataError(
            f"has version {document['version']}, and this bpmcli ({__version__}) reads up to {version}",
            "upgrade: pip install -U bpmcli",
        )
    return document


def _refuse_constant(name: str) -> float:
    raise DataError(f"holds {name}, which is not a number")
