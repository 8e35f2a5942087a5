"""Paths with a scheme (s3://, gs://, hdfs://, https://): through fsspec, or pyarrow where that is not installed."""

from __future__ import annotations

import os
import re
from contextlib import nullcontext
from typing import Any

from bpmcli.errors import DataError, UsageError

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
HINT = "pip install 'bpmcli[remote]'"

PACKAGES = {
    "s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "http": "aiohttp", "https": "aiohttp",
    "abfs": "adlfs", "abfss": "adlfs", "az": "adlfs",
}  # fmt: skip
"""What fsspec needs for a scheme."""

ARROW_SCHEMES = ("s3", "hdfs", "viewfs", "file")
"""What pyarrow opens itself. Not gs: without credentials it asks for them for a quarter of an hour, deaf to Ctrl-C."""


def is_remote(path: str) -> bool:
    """Whether a path names a scheme; `file://` counts."""
    return _SCHEME.match(path) is not None


def opened(path: str) -> Any:
    """Under `with`, what libraries open: the path itself if it is local, otherwise a seekable file."""
    return _open(path) if is_remote(path) else nullcontext(path)


def _filesystem(path: str) -> tuple[Any, str, bool]:
    """The filesystem, the path on it, and whether it is fsspec's."""
    scheme = path[: path.index("://")].lower()
    if scheme in ("hdfs", "viewfs"):
        return *_arrow_filesystem(path, scheme), False  # fsspec would go the same way, and say less when it cannot
    try:
        import fsspec

        return *fsspec.url_to_fs(path), True
    except (ImportError, ValueError) as error:
        if scheme in ARROW_SCHEMES:
            return *_arrow_filesystem(path, scheme), False
        package = PACKAGES.get(scheme)
        if package is None:
            raise UsageError(f"{path}: cannot be opened ({error})", "known: s3, gs, hdfs, https") from None
    hint = HINT if package != "adlfs" else "pip install fsspec adlfs"
    raise UsageError(f"{path}: cannot be opened ({scheme}:// needs the packages fsspec and {package})", hint)


def _arrow_filesystem(path: str, scheme: str) -> tuple[Any, str]:
    import pyarrow as pa
    from pyarrow import fs

    try:
        found, inner = fs.FileSystem.from_uri(path)
        return found, inner
    except (pa.ArrowException, OSError) as error:
        text = " ".join(str(error).split())[:300]
        hadoop = "install Hadoop's client, and set JAVA_HOME, HADOOP_HOME and CLASSPATH (hadoop classpath --glob)"
        raise UsageError(f"{path}: cannot be opened ({text})", HINT if scheme == "s3" else hadoop) from None


def _open(path: str) -> Any:
    filesystem, inner, spec = _filesystem(path)
    try:
        return filesystem.open(inner, "rb") if spec else filesystem.open_input_file(inner)
    except OSError:
        raise
    except Exception as error:
        # Every store has exceptions of its own.
        raise DataError(f"cannot be opened: {error}") from None


def size(path: str) -> int:
    """Bytes of a file."""
    if not is_remote(path):
        return os.path.getsize(path)
    with _open(path) as handle:
        return int(handle.seek(0, os.SEEK_END) or handle.tell())


def listing(path: str) -> list[str] | None:
    """Files that a remote glob matches or a remote directory holds, sorted; None: it is a single file."""
    filesystem, inner, spec = _filesystem(path)
    scheme = path[: path.index("://") + 3]
    if spec:
        if any(c in inner for c in "*?["):
            found = [f for f in filesystem.glob(inner) if not filesystem.isdir(f)]
        elif scheme.startswith("http") or not filesystem.isdir(inner):
            return None
        else:
            found = filesystem.find(inner)
        return sorted(str(filesystem.unstrip_protocol(f)) for f in found)
    from pyarrow import fs

    if filesystem.get_file_info(inner).type != fs.FileType.Directory:
        return None
    infos = filesystem.get_file_info(fs.FileSelector(inner, recursive=True))
    return sorted(scheme + i.path for i in infos if i.type == fs.FileType.File)


def upload(local: str, path: str) -> None:
    """A finished local file to its place; stores show it only when it is complete."""
    import shutil

    filesystem, inner, spec = _filesystem(path)
    remote = filesystem.open(inner, "wb") if spec else filesystem.open_output_stream(inner)
    with open(local, "rb") as source, remote as target:
        shutil.copyfileobj(source, target, 1 << 20)
