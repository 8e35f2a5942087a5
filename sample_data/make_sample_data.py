"""Make the sample prediction files from scikit-learn's bundled digits (N=1797, K=10).

Run: ``python sample_data/make_sample_data.py [OUTDIR]`` (default: this script's own folder).
Needs numpy, scikit-learn and pyarrow. Every seed is fixed, so a second run with the same
library versions writes byte-identical files. Every prediction is for a row its model was
not trained on. A table of what the written files hold is printed at the end.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]
from sklearn.datasets import load_digits  # type: ignore[import-untyped,unused-ignore]
from sklearn.ensemble import (  # type: ignore[import-untyped,unused-ignore]
    RandomForestClassifier,
)
from sklearn.exceptions import (  # type: ignore[import-untyped,unused-ignore]
    ConvergenceWarning,
)
from sklearn.linear_model import (  # type: ignore[import-untyped,unused-ignore]
    LogisticRegression,
)
from sklearn.model_selection import (  # type: ignore[import-untyped,unused-ignore]
    StratifiedKFold,
    train_test_split,
)
from sklearn.naive_bayes import GaussianNB  # type: ignore[import-untyped,unused-ignore]
from sklearn.neural_network import (  # type: ignore[import-untyped,unused-ignore]
    MLPClassifier,
)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SEED = 0
BINS = 15


def out_of_fold(model: Any, predict: str, x: Floats, y: Ints, digits: Ints) -> Floats:
    """Predict each row by the one of 5 models (stratified by digit) that did not see it."""
    folds = StratifiedKFold(n_splits=5, shuffle=True, random_state=SEED)
    out = np.zeros((len(y), len(np.unique(y))))
    for train, held_out in folds.split(x, digits):
        out[held_out] = getattr(model.fit(x[train], y[train]), predict)(x[held_out])
    return out


def mlp_logits(model: Any, x: Floats) -> Floats:
    """Return the output layer of a fitted one-hidden-layer ReLU network before its softmax."""
    hidden = np.maximum(x @ model.coefs_[0] + model.intercepts_[0], 0.0)
    return np.asarray(hidden @ model.coefs_[1] + model.intercepts_[1], dtype=np.float64)


def write_npz(path: Path, **arrays: npt.NDArray[Any]) -> None:
    """Write a compressed npz whose bytes do not depend on the clock."""
    with zipfile.ZipFile(path, "w") as archive:
        for key, array in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
            info = zipfile.ZipInfo(f"{key}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, buffer.getvalue(), compresslevel=9)


def write_csv(path: Path, header: list[str], rows: list[list[str]]) -> None:
    """Write a comma-separated file with Unix line ends."""
    with path.open("w", encoding="utf-8", newline="") as handle:
        csv.writer(handle, lineterminator="\n").writerows([header, *rows])


def write_four_formats(stem: Path, logits: Floats, labels: Ints) -> None:
    """Write the same float64 logits as npz, parquet, csv and jsonl."""
    write_npz(stem.with_suffix(".npz"), logits=logits, labels=labels)
    names = [f"logit_{k}" for k in range(logits.shape[1])]
    table = pa.table(dict(zip([*names, "label"], [*logits.T, labels], strict=True)))
    parquet = stem.with_suffix(".parquet")
    pq.write_table(table, parquet, compression="zstd", compression_level=9, use_dictionary=False)
    pairs = list(zip(logits.tolist(), labels.tolist(), strict=True))
    rows = [[*map(repr, values), str(label)] for values, label in pairs]
    write_csv(stem.with_suffix(".csv"), [*names, "label"], rows)
    with stem.with_suffix(".jsonl").open("w", encoding="utf-8", newline="\n") as handle:
        for values, label in pairs:
            handle.write(json.dumps({"logits": values, "label": label}, separators=(",", ":")))
            handle.write("\n")


def make(out: Path) -> None:
    """Train the models and write every file into the folder `out`."""
    data, target = load_digits(return_X_y=True)
    x: Floats = np.asarray(data, dtype=np.float64) / 16.0
    y: Ints = np.asarray(target, dtype=np.int64)

    bayes = GaussianNB(var_smoothing=0.1)
    logits = out_of_fold(bayes, "predict_joint_log_proba", x, y, y).round(3)
    write_four_formats(out / "digits_overconfident", logits, y)

    forest = RandomForestClassifier(n_estimators=100, max_depth=6, random_state=SEED)
    probs = out_of_fold(forest, "predict_proba", x, y, y)
    write_npz(out / "digits_underconfident.npz", probs=probs.astype(np.float32), labels=y)

    linear = LogisticRegression(C=30.0, max_iter=5000)
    logits = out_of_fold(linear, "decision_function", x, y, y)
    write_npz(out / "digits_good.npz", logits=logits.round(4).astype(np.float32), labels=y)

    lower = x[:, 32:]  # the lower four of the eight pixel rows
    train, rest = train_test_split(np.arange(len(y)), train_size=599, stratify=y, random_state=SEED)
    val, test = train_test_split(rest, test_size=599, stratify=y[rest], random_state=SEED)
    warnings.simplefilter("ignore", ConvergenceWarning)  # over-training is the point here
    network = MLPClassifier(
        (64,),
        alpha=0.0,
        learning_rate_init=0.003,
        max_iter=1500,
        tol=1e-6,
        n_iter_no_change=1500,
        random_state=SEED,
    ).fit(lower[train], y[train])
    for name, index in (("digits_val.npz", val), ("digits_test.npz", test)):
        logits = mlp_logits(network, lower[index]).round(4)
        write_npz(out / name, logits=logits.astype(np.float32), labels=y[index])

    even: Ints = (y % 2 == 0).astype(np.int64)
    prob = out_of_fold(bayes, "predict_proba", x, even, y)[:, 1]
    rows = [[f"{p:.6g}", str(e)] for p, e in zip(prob.tolist(), even.tolist(), strict=True)]
    write_csv(out / "digits_even.csv", ["prob", "label"], rows)


def softmax(logits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the row-wise softmax in the dtype it is given."""
    exp = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(exp / exp.sum(axis=1, keepdims=True))


def ece(confidence: Floats, hit: Floats) -> float:
    """Return the expected calibration error over equal-mass bins (stable sort, ties may split)."""
    bins = np.array_split(np.argsort(confidence, kind="stable"), BINS)
    gaps = [len(b) * abs(confidence[b].mean() - hit[b].mean()) for b in bins]
    return float(sum(gaps) / len(confidence))


def read_npz(path: Path) -> tuple[npt.NDArray[Any], Ints, bool]:
    """Return scores, labels and whether the scores are logits."""
    with np.load(path) as arrays:
        is_logits = "logits" in arrays
        return arrays["logits" if is_logits else "probs"], arrays["labels"], is_logits


def read_parquet(path: Path) -> tuple[npt.NDArray[Any], Ints, bool]:
    """Return scores, labels and whether the scores are logits."""
    columns = [column.to_numpy() for column in pq.read_table(path).columns]
    return np.column_stack(columns[:-1]), np.asarray(columns[-1]), True


def read_csv(path: Path) -> tuple[npt.NDArray[Any], Ints, bool]:
    """Return scores, labels and whether the scores are logits."""
    values = np.loadtxt(path, delimiter=",", skiprows=1)
    scores, labels = values[:, :-1], values[:, -1].astype(np.int64)
    if scores.shape[1] == 1:  # the event file holds only P(even)
        return np.hstack([1.0 - scores, scores]), labels, False
    return scores, labels, True


def read_jsonl(path: Path) -> tuple[npt.NDArray[Any], Ints, bool]:
    """Return scores, labels and whether the scores are logits."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return np.array([r["logits"] for r in rows]), np.array([r["label"] for r in rows]), True


READERS: dict[str, Callable[[Path], tuple[npt.NDArray[Any], Ints, bool]]] = {
    ".npz": read_npz,
    ".parquet": read_parquet,
    ".csv": read_csv,
    ".jsonl": read_jsonl,
}


def report(out: Path) -> None:
    """Print a Markdown table measured on the files as written."""
    print("| file | bytes | N | accuracy | mean confidence | ECE | conf == 1 (f64) | (f32) |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for path in sorted(p for p in out.glob("digits_*") if p.suffix in READERS):
        scores, labels, is_logits = READERS[path.suffix](path)
        wide, narrow = scores.astype(np.float64), scores.astype(np.float32)
        conf = (softmax(wide) if is_logits else wide).max(axis=1)
        conf32 = (softmax(narrow) if is_logits else narrow).max(axis=1)
        hit = (scores.argmax(axis=1) == labels).astype(np.float64)
        print(
            f"| `{path.name}` | {path.stat().st_size} | {len(labels)} | {hit.mean():.4f} "
            f"| {conf.mean():.4f} | {ece(conf, hit):.4f} "
            f"| {(conf == 1.0).mean():.4f} | {(conf32 == 1.0).mean():.4f} |"
        )
    scores, labels, _ = read_csv(out / "digits_even.csv")
    event_ece = ece(scores[:, 1], labels.astype(np.float64))
    print(f"\ndigits_even.csv as an event: mean prob {scores[:, 1].mean():.4f}, ", end="")
    print(f"event rate {labels.mean():.4f}, ECE of prob {event_ece:.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("outdir", nargs="?", type=Path, default=Path(__file__).resolve().parent)
    folder: Path = parser.parse_args().outdir
    folder.mkdir(parents=True, exist_ok=True)
    make(folder)
    report(folder)
