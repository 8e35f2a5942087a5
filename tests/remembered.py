"""Results that commands compute again and again from the same rows, computed once in every test process.

Most tests run commands on the same few files, and are about one word or one number of the output. Only modules of the
program remember results: tests of `verdict`, `fit_calibrator` or `measure` itself have imported the function before, and
that is left as it is. Results are remembered by the content of all arguments, so other rows or options are computed anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from types import ModuleType
from typing import Any

import numpy as np

from bpmcli.core.data.rows import SummarisedRows
from bpmcli.record import Record

KNOWN: dict[str, dict[Any, Any]] = {}
"""What is remembered, function by function."""


def remember(
    name: str, *modules: ModuleType, given: tuple[str, ...] = (), copy: Callable[[Any], Any] | None = None
) -> None:
    """Replaces a function in the modules that call it. `given` names what else its result depends on: constants of the
    first module, which tests change. `copy` is for results that the caller changes."""
    compute, known = getattr(modules[0], name), KNOWN.setdefault(name, {})

    def remembered(*arguments: Any, **named: Any) -> Any:
        constants = [getattr(modules[0], constant) for constant in given]
        key = content([*arguments, *named.items(), *constants])
        if key not in known:
            known[key] = compute(*arguments, **named)
        return copy(known[key]) if copy else known[key]

    for module in modules:
        assert getattr(module, name) is compute
        setattr(module, name, remembered)


def forget() -> None:
    """Everything is computed again. For tests that run the same command twice and compare."""
    for known in KNOWN.values():
        known.clear()


def content(value: Any) -> Any:
    """Something hashable that is equal for equal values, arrays and records included."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return value.dtype.str, value.shape, blake2b(value.tobytes()).digest()
    if isinstance(value, Record):
        names = ("sample", "target", "tables") if isinstance(value, SummarisedRows) else value._fields
        # What a record has computed itself does not count, and rows that are not sorted yet stay so.
        value = type(value).__name__, {name: vars(value)[name] for name in (*names, "_unsorted") if name in vars(value)}
    elif hasattr(value, "_asdict"):
        value = type(value).__name__, value._asdict()
    elif is_dataclass(value) and not isinstance(value, type):
        value = type(value).__name__, {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return tuple((key, content(each)) for key, each in value.items())
    if isinstance(value, list | tuple | np.ndarray):
        return tuple(map(content, value))
    return type(value), value  # 1 and True are not the same


def results_of_commands() -> None:
    """To be called when all tests are imported: those of one of these functions keep the function itself."""
    from bpmcli.core.calibrators import averaged, grouped
    from bpmcli.core.compare import before_after
    from bpmcli.core.curves.averaged import tce
    from bpmcli.core.metrics import canonical, class_check, disagreement, intervals, reliability
    from bpmcli.tasks import fit, measure, report

    remember("verdict", disagreement, before_after, report)
    remember("fit_mixture", tce)
    remember("_chance", disagreement)
    remember("measure", measure, copy=lambda found: type(found)(found))
    remember("metric_intervals", intervals, given=("BLOCK",), copy=dict)
    remember("fit_averaged", reliability, averaged)
    remember("reliability", reliability, given=("DRAWS",))
    remember("distribution_test", canonical, class_check, given=("CHUNK", "MOST_SUMS"))
    remember("fit_calibrator", fit, grouped)
    remember("fit_groups", fit, grouped)
    remember("choose_method", fit)
    remember("held_out", before_after, given=("FOLDS", "FEW_VALUES", "MOST_VALUES"))
