"""npz and npy files of either memory order: the same rows, memory that does not grow, damage that is named."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from bpmcli.errors import DataError
from bpmcli.io import read_rows
from bpmcli.io.formats import reader as formats_reader
from bpmcli.io.opening import open_reader


def data(n: int = 400, k: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    return rng.normal(size=(n, k)).astype(np.float32), rng.integers(0, k, n)


def saved(folder: Path, form: str, logits: np.ndarray, labels: np.ndarray) -> str:
    """`form` is like "npz stored F"."""
    suffix, packing, order = form.split()
    z = np.asarray(logits, order=order)
    path = folder / f"{form.replace(' ', '-')}-{len(z)}_logits.{suffix}"
    if suffix == "npz":
        (np.savez if packing == "stored" else np.savez_compressed)(path, logits=z, labels=labels)
    else:
        np.save(path, z)
        np.save(str(path).replace("logits", "labels"), labels)
    return str(path)


FORMS = [f"{kind} {order}" for kind in ("npz stored", "npz packed", "npy plain") for order in "CF"]


@pytest.mark.parametrize("form", FORMS)
def test_every_order_and_packing_gives_the_same_rows(tmp_path, monkeypatch, form):
    z, y = data()
    expected = read_rows(saved(tmp_path, "npz stored C", z, y)).rows
    monkeypatch.setattr(formats_reader, "BATCH_VALUES", 300)  # a few rows at a time, the last batch shorter
    found = read_rows(saved(tmp_path, form, z, y)).rows
    assert np.array_equal(found.log_odds, expected.log_odds)
    assert np.array_equal(found.hits, expected.hits)


def test_more_than_two_dimensions_keep_their_places(tmp_path, monkeypatch):
    values = np.arange(2 * 5 * 3 * 4).reshape(10, 3, 4)
    np.savez(tmp_path / "a.npz", logits=np.asfortranarray(values))
    monkeypatch.setattr(formats_reader, "BATCH_VALUES", 36)
    batches = list(open_reader(str(tmp_path / "a.npz")).batches(["logits"]))
    assert [b.n for b in batches] == [3, 3, 3, 1]
    assert np.array_equal(np.concatenate([b.columns["logits"] for b in batches]), values)


PEAK = """
import re, sys
from bpmcli.io.opening import open_reader
def read(path):
    for batch in open_reader(path).batches(["logits", "labels"]):
        batch.columns["logits"].sum()
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
before = read(sys.argv[1])
print(read(sys.argv[2]) - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize("form", FORMS)
def test_memory_does_not_grow_with_the_rows(tmp_path, form):
    """Eight times the rows: 40 MB of scores instead of 5, and not 16 MB more."""
    z, y = data(40, 50)  # repeated within the 32 kB in which deflate looks for repetitions, so that it is quick
    paths = [saved(tmp_path, form, np.tile(z, (k, 1)), np.tile(y, k)) for k in (625, 5000)]
    ran = subprocess.run([sys.executable, "-c", PEAK, *paths], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) < 16_000


@pytest.mark.parametrize("form", FORMS)
def test_a_file_cut_off_is_a_sentence(tmp_path, form):
    path = Path(saved(tmp_path, form, *data()))
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(DataError, match="ends too early|cannot be read as npz"):
        read_rows(str(path))


@pytest.mark.parametrize("order", "CF")
def test_a_changed_byte_is_found_by_the_checksum(tmp_path, order):
    path = Path(saved(tmp_path, f"npz stored {order}", *data()))
    raw = bytearray(path.read_bytes())
    raw[1000] ^= 1
    path.write_bytes(raw)
    with pytest.raises(DataError, match="Bad CRC-32"):
        read_rows(str(path))


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_array_shorter_than_it_says_takes_nothing_from_its_neighbour(tmp_path, order, packing):
    z, y = data()
    np.save(tmp_path / "z.npy", np.asarray(z, order=order))
    np.save(tmp_path / "y.npy", y)
    with zipfile.ZipFile(tmp_path / "a.npz", "w", packing) as archive:
        archive.writestr("logits.npy", (tmp_path / "z.npy").read_bytes()[:-400])
        archive.write(tmp_path / "y.npy", "labels.npy")
    with pytest.raises(DataError, match="array 'logits' ends too early"):
        read_rows(str(tmp_path / "a.npz"))
