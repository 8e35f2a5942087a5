"""Paths with a scheme (s3://, gs://, hdfs://, https://): through fsspec, or pyarrow where fsspec is not installed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from bpmcli.errors import BpmError, DataError, UsageError, too_many_files

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)

PACKAGES = {
    "s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "http": "aiohttp", "https": "aiohttp",
    "abfs": "adlfs", "abfss": "adlfs", "az": "adlfs",
}  # fmt: skip
"""The package that fsspec needs for a scheme."""

ARROW_SCHEMES = ("s3", "hdfs", "viewfs", "file")
"""Schemes that pyarrow opens itself. Not gs: without credentials pyarrow retries for 15 minutes and ignores Ctrl-C."""

TAGS = ("ETag", "etag", "md5Hash", "content_md5", "crc32c", "checksum", "LastModified", "mtime", "last_modified")
"""Names that stores use for the mark of an object's content, the most reliable first."""


def is_remote(path: str) -> bool:
    """Whether a path names a scheme; `file://` counts."""
    return _SCHEME.match(path) is not None


def local_path(path: str) -> str:
    """`/a/b` for `file:///a/b`; any other path unchanged."""
    if path[:7].lower() != "file://":
        return path
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    parts = urlsplit(path)
    if parts.netloc not in ("", "localhost"):
        place = os.path.abspath(path[7:])
        raise UsageError(f"{path}: file:// names files of this machine", f"write three slashes: file://{place}")
    return url2pathname(parts.path)


def opened(path: str) -> Any:
    """For a `with` statement: the path itself if it is local, otherwise an open, seekable file."""
    return _open(path) if is_remote(path) else nullcontext(path)


@contextmanager
def reaching(path: str) -> Iterator[None]:
    """Turns any exception of a store into a DataError about this path; every store raises exceptions of its own."""
    try:
        yield
    except BpmError:
        raise
    except FileNotFoundError as error:
        cause = error.__cause__
        if cause is not None and not isinstance(cause, FileNotFoundError) and getattr(cause, "status", 0) != 404:
            raise _unreachable(cause).at(path) from None
        raise DataError(f"{path}: no such file") from None
    except PermissionError as error:
        raise DataError(
            f"{path}: permission denied ({_one_line(error)})", "check the credentials and the name"
        ) from None
    except Exception as error:
        raise _unreachable(error).at(path) from None


def _unreachable(error: BaseException) -> DataError:
    hint = "is the server up, and is its address right?"
    if "credential" in f"{type(error).__name__} {error}".lower():
        hint = "give credentials as the store expects them, for S3 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    return DataError(f"cannot be reached ({_one_line(error)})", hint)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _filesystem(path: str) -> tuple[Any, str, bool]:
    """The filesystem, the path on it, and whether it is fsspec's."""
    scheme = path[: path.index("://")].lower()
    if scheme in ("hdfs", "viewfs"):
        return *_arrow_filesystem(path, scheme), False  # fsspec would use pyarrow too, and its messages say less
    try:
        import fsspec

        return *fsspec.url_to_fs(path), True
    except (ImportError, ValueError) as error:
        if scheme in ARROW_SCHEMES:
            return *_arrow_filesystem(path, scheme), False
        package = PACKAGES.get(scheme)
        if package is None:
            raise UsageError(f"{path}: cannot be opened ({error})", "known: s3, gs, hdfs, https") from None
    raise UsageError(
        f"{path}: cannot be opened ({scheme}:// needs the packages fsspec and {package})",
        f"pip install fsspec {package}",
    )


def _arrow_filesystem(path: str, scheme: str) -> tuple[Any, str]:
    import pyarrow as pa
    from pyarrow import fs

    try:
        found, inner = fs.FileSystem.from_uri(path)
        return found, inner
    except (pa.ArrowException, OSError) as error:
        hadoop = "install Hadoop's client, and set JAVA_HOME, HADOOP_HOME and CLASSPATH (hadoop classpath --glob)"
        hint = "pip install fsspec s3fs" if scheme == "s3" else hadoop
        raise UsageError(f"{path}: cannot be opened ({' '.join(str(error).split())[:300]})", hint) from None


def _open(path: str) -> Any:
    filesystem, inner, spec = _filesystem(path)
    try:
        return filesystem.open(inner, "rb") if spec else filesystem.open_input_file(inner)
    except OSError:
        raise
    except Exception as error:
        raise _unreachable(error) from None


def read_start(path: str, most: int) -> bytes:
    """The first bytes of a file, local or remote. Raises a DataError that does not name the path."""
    path = local_path(path)
    try:
        if is_remote(path):
            with _open(path) as handle:
                return bytes(handle.read(most))
        with open(path, "rb") as f:
            return f.read(most)
    except FileNotFoundError as error:
        if is_remote(path) and isinstance(error.__cause__, OSError):
            raise _unreachable(error.__cause__) from None
        raise DataError("no such file") from None
    except OSError as error:
        raise too_many_files(error) or DataError(f"cannot be read ({error.strerror or _one_line(error)})") from None
    except ValueError:
        raise DataError("cannot be read (a name cannot hold a null character)") from None


def size(path: str) -> int:
    """Bytes of a file."""
    if not is_remote(path):
        return os.path.getsize(path)
    with _open(path) as handle:
        return int(handle.seek(0, os.SEEK_END) or handle.tell())


def fingerprint(path: str) -> dict[str, Any] | None:
    """Size and mark of an object as its store gives them, which change with its content; None if it does not exist."""
    filesystem, inner, spec = _filesystem(path)
    with reaching(path):
        if not spec:
            found = filesystem.get_file_info(inner)
            return {"size": found.size, "tag": str(found.mtime_ns)} if found.is_file else None
        try:
            filesystem.invalidate_cache()  # the cached listing is older than our own uploads
            about = filesystem.info(inner)
        except FileNotFoundError:
            return None
        tag = next((str(about[name]) for name in TAGS if about.get(name) is not None), "")
        return {"size": about.get("size"), "tag": tag}


def listing(path: str) -> list[str] | None:
    """Files that a remote glob matches or a remote directory holds, sorted; None for a single file."""
    filesystem, inner, spec = _filesystem(path)
    with reaching(path):
        return _listing(filesystem, inner, spec, path[: path.index("://") + 3])


def _listing(filesystem: Any, inner: str, spec: bool, scheme: str) -> list[str] | None:
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


def read_objects(folder: str) -> list[bytes]:
    """The content of every object in a remote folder; empty if there is no such folder."""
    filesystem, inner, spec = _filesystem(folder)
    with reaching(folder):
        if spec:
            filesystem.invalidate_cache()
            if not filesystem.isdir(inner):
                return []
            found = filesystem.cat(filesystem.find(inner), on_error="omit")
            return list(found.values()) if isinstance(found, dict) else [found]
        paths = _listing(filesystem, inner, spec, "")
        return [filesystem.open_input_file(path).readall() for path in paths or []]


def upload(local: str, path: str) -> None:
    """Upload a finished local file; stores show it only when it is complete."""
    import shutil

    filesystem, inner, spec = _filesystem(path)
    with reaching(path):
        remote = filesystem.open(inner, "wb") if spec else filesystem.open_output_stream(inner)
        with open(local, "rb") as source, remote as target:
            shutil.copyfileobj(source, target, 1 << 20)
