"""Evaluation logs of language models: each kind is one module here with one class.

To add a kind, write such a module and list it in LOGS. A log is recognised by its content, whatever its name, and
read as a table: a score and a hit per sample, and the columns `task`, `model`, `source`, `sample` and
`prompt` (task and sample) for `--by` and `--cluster`.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bpmcli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from bpmcli.io.logs.log_reader import LogReader
    from bpmcli.io.logs.tables import TableLog

LOGS = {
    "lm-eval": "lm_eval.LmEvalLog",
    "inspect": "inspect_log.InspectLog",
    "helm": "helm.HelmLog",
    "openai-batch": "openai_batch.OpenAIBatchLog",
    "table": "tables.TableLog",
}
"""Name for `--input-format`, and where the class is."""


def _class(name: str) -> type[LogReader] | type[TableLog]:
    module, _, cls = LOGS[name].partition(".")
    found: type[LogReader] | type[TableLog] = getattr(import_module(f"{__name__}.{module}"), cls)
    return found


def recognised(head: bytes) -> type[LogReader] | type[TableLog] | None:
    """The kind of log that begins with these bytes."""
    return next((cls for cls in map(_class, LOGS) if cls.recognises(head)), None)


def named(text: str) -> Callable[[str], Any] | None:
    """The log that `--input-format NAME[:CHOICE,…]` asks for; None if it is not the name of a log."""
    name, _, choices = text.partition(":")
    if name not in LOGS:
        return None
    cls = _class(name)
    chosen = dict(part.partition("=")[::2] for part in choices.split(",") if part)
    unknown = [key for key in chosen if key not in cls.choices]
    if unknown:
        known = ", ".join(f"{name}:{key}" for key in cls.choices)
        raise UsageError(f"--input-format {text}: unknown choice '{unknown[0]}'", f"known: {known}")
    return partial(cls, chosen=chosen)
