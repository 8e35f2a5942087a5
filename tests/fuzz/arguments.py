"""Options of every command, read from the command line's own declarations, with sensible and absurd values."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from random import Random
from typing import Any

KNOWN: dict[str, list[str]] = {
    "--n-bins": ["1", "2", "5", "15", "100", "1000"],
    "--binning": ["mass", "width"],
    "--interval": ["0.5", "0.9", "0.95", "0.9999"],
    "--resamples": ["20", "30"],
    "--gate-confidence": ["0.6", "0.95"],
    "--noise-runs": ["1", "2", "10"],
    "--fail-above": ["ece=0.01", "ece=1", "ks=0", "tce=0.5", "tce-bpm=0.03"],
    "--max-increase": ["ece=0.01", "ks=0", "ece=-1"],
    "--seed": ["0", "1", "12345", "4294967296", "18446744073709551616"],
    "--variant": ["paper", "authors"],
    "--bins": ["2:5", "3", "1:1", "2:40"],
    "--schemes": ["1", "3", "11", "all"],
    "--density": ["beta", "empirical"],
    "--p": ["1", "2", "50", "1.5"],
    "--format": ["table", "json", "csv", "markdown"],
    "--optimizer": ["newton", "nelder-mead"],
    "--min-group": ["1", "20", "1000"],
    "--by": ["site", "row", "label", "hit", "confidence"],
    "--folds": ["2", "3", "5"],
    "--repeats": ["1", "2"],
    "--learning-curve": ["20", "20,40", "10:40:10"],
    "--truth": ["D1", "D2,D3", "D5", "logit-logit:-0.88,0.49@1.12,0.11", "beta:0.5,0.6,0.2@2,0.3", "p.json"],
    "--rows": ["30", "60", "30,60", "30:90:30", "30:120:x2"],
    "--runs": ["1", "2", "3"],
    "--error": ["0.02", "0.1"],
    "--delta": ["0.05", "0.5"],
    "--curve": ["logit-logit:-0.88,0.49", "beta:0.5,0.6,0.2", "log-log:0.1,1.2"],
    "--beta": ["2,0.3", "1,1", "2.77,0.04"],
    "--output": ["o.csv", "o.parquet", "o.json", "o.npz", "-"],
    "--output-dir": ["out"],
    "--plot": ["p.png", "p.svg"],
    "--resume": ["draws.jsonl"],
    "--baseline": ["base.json"],
    "--rank-by": ["ece", "brier", "nll", "tce"],
    "--engine": ["local"],
    "--density-from": ["a.npz"],
    "--calibration": ["a.npz"],
    "--evaluation": ["a.npz"],
}
"""Values that mean something, by option. An option that is not here gets values of its type."""

# Nothing here may name a place outside the folder of the case, but for devices: commands write where they are told to.
ABSURD = [
    "", "-1", "0", "nan", "inf", "-inf", "1e308", "1e-320", "1e999", "9" * 40, "-" + "9" * 30, "999999999", "1000000000000", "x", "é🎉",
    "\x1b[31mred", "a\nb", "x" * 3000, "-", "--", "=", ",", ":", "::", "1:2:3:4", "0:0:0", "5:1", "1:x", "@", "ece=", "=1", "ece=nan", "ece=1e999",
    "nope=1", "D1,", "D9", "beta:", "beta:1@", "logit-logit:1e308,1@1e-300,1e300", "beta:nan,1,1@1,1", "10:1000000000000:1", "1:9:x1", "1:9:x0.1",
    ".", "/dev/null", "/dev/full", "nowhere/x", "a.npz", "list", "all", "1,2", "0.5", "1.5", "true", "None", "\udcff", "0x10", "1_0", "٣", "²",
]  # fmt: skip

RARE = {
    "--jobs": 0.01,
    "--engine": 0.02,
    "--scheduler": 0.01,
    "--plot": 0.03,
    "--interval": 0.3,
    "--help": 0.05,
    "--paired": 0.5,
}
"""Options that take long are tried less often: this share of the times that others are."""

NEVER = {"--log-file"}


@lru_cache
def commands() -> dict[tuple[str, ...], Any]:
    """Every command and subcommand with its declaration."""
    import typer

    from bpmcli.cli import COMMANDS

    found: dict[tuple[str, ...], Any] = {}
    for name in COMMANDS:
        command = typer.main.get_command(import_module(f"bpmcli.cli.cmd_{name}").app)
        below = getattr(command, "commands", None)
        if below and len(below) >= 1 and hasattr(command, "list_commands"):
            found.update({(name, child): each for child, each in below.items()})
        else:
            found[(name,)] = command
    return found


def _main_name(parameter: Any) -> str:
    return max(parameter.opts, key=len)


def _choices(name: str) -> list[str]:
    if name == "--metric":
        from bpmcli.core.metrics import METRICS

        return [*METRICS, "ece,ks", "all"]
    if name == "--method":
        from fuzz.documents import methods

        return [*methods(), "hb-15"]
    if name == "--prior":
        from bpmcli.core.curves import families

        return [*getattr(families, "FAMILIES", ["beta", "log-log"]), "list"]
    return KNOWN.get(name, [])


def value_for(rng: Random, parameter: Any) -> str:
    """A value: mostly a sensible one, sometimes an absurd one."""
    known = _choices(_main_name(parameter))
    if known and rng.random() < 0.8:
        return rng.choice(known)
    kind = getattr(parameter.type, "name", "")
    if not known and rng.random() < 0.5:
        if "int" in kind:
            return rng.choice(["1", "2", "3", "10"])
        if "float" in kind:
            return rng.choice(["0.1", "0.5", "0.9", "2"])
        return rng.choice(["site", "row", "confidence", "label", "hit", "logits", "probs", "weight", "a.npz"])
    return rng.choice(ABSURD)


def random_options(rng: Random, command: tuple[str, ...], count: int) -> list[str]:
    """Some options of a command, in any order, possibly twice."""
    options = [p for p in commands()[command].params if p.opts[0].startswith("-")]
    found: list[str] = []
    while options and count > 0:
        count -= 1
        parameter = rng.choice(options)
        name = _main_name(parameter)
        if name in NEVER or rng.random() > RARE.get(name, 1.0):
            continue
        if getattr(parameter, "is_flag", False):
            found.append(name)
        elif name == "--jobs":
            found += [name, rng.choice(["2", "0", "-1", "x"])]
        else:
            found += [rng.choice(parameter.opts), value_for(rng, parameter)]
    return found


def modest(command: tuple[str, ...]) -> list[str]:
    """Options that keep a command quick, put first so that random ones may override them."""
    if command[:1] == ("compare",) and command[1] in ("metrics", "curves", "samples"):
        return ["-n", "30,60", "--runs", "2"]
    if command == ("compare", "calibrators"):
        return ["--folds", "2", "--repeats", "1"]
    if command == ("simulate",):
        return ["-n", "20"]
    if command == ("report",):
        return ["-o", "page.html", "--resamples", "20"]
    if command == ("metrics",):
        return ["--noise-runs", "2", "--resamples", "20"]
    return []
