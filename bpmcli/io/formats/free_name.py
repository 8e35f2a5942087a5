"""Lines for hints that convert a file, under a name that no file has yet, so that nothing is overwritten."""

from __future__ import annotations

import os
from itertools import count


def free_name(path: str, suffix: str) -> str:
    """The name of a file with another suffix, in the current folder: a.csv for a.xlsx, else a-2.csv, a-3.csv, …"""
    stem = os.path.splitext(os.path.basename(path))[0]
    names = (f"{stem}{suffix}" if k == 1 else f"{stem}-{k}{suffix}" for k in count(1))
    return next(name for name in names if not os.path.lexists(name))


def as_utf8(path: str) -> str:
    """The hint for text in another encoding, which is most often Latin-1."""
    from bpmcli.io.opening import unfinished

    if path in unfinished:  # the copy of a pipe
        return "save it as UTF-8: pipe it through iconv -f latin1 -t utf-8"
    return f"save it as UTF-8: {_filtered(path, 'iconv -f latin1 -t utf-8', '.utf8')}"


def as_lines(path: str) -> str:
    """The hint for an array of objects that is too large to be read whole."""
    from shlex import quote

    return f"convert it: jq -c '.[]' {quote(path)} > {quote(free_name(path, '.jsonl'))}"


def without_header(path: str) -> str:
    """The line that copies a text file without its first line."""
    return f"leave it out: {_filtered(path, 'tail -n +2', '.rows')}"


def _filtered(path: str, command: str, mark: str) -> str:
    """The line that passes a text file, plain or gzipped, through a command into a new file."""
    from shlex import quote

    plain = path.removesuffix(".gz")
    target = quote(free_name(plain, mark + os.path.splitext(plain)[1]))
    if plain != path:
        return f"gzip -dc {quote(path)} | {command} > {target}"
    return f"{command} {quote(path)} > {target}"
