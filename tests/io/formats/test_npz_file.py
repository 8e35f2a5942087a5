"""npz archives, read and written directly: what becomes a column, what is carried along, what is refused."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.lib import format as npy

from bpmcli.errors import DataError
from bpmcli.io.formats import npz_file, reader
from bpmcli.io.formats.npz_file import NpzReader, NpzWriter

Z = np.arange(24.0).reshape(8, 3)


def written(path: Path, *batches: dict, metadata: dict | None = None, origin: NpzReader | None = None) -> NpzReader:
    writer = NpzWriter(str(path), metadata or {})
    try:
        for batch in batches:
            writer.write(batch)
        if origin is not None:
            assert writer.carry(origin, origin.file_arrays("logits"))
    except DataError:
        writer.abandon()
        raise
    writer.close()
    return NpzReader(str(path))


def npy_bytes(values: np.ndarray) -> bytes:
    raw = io.BytesIO()
    np.save(raw, values)
    return raw.getvalue()


def arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as data:
        return dict(data)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.npz"


def test_columns_and_what_belongs_to_the_file(path):
    np.savez(
        path, logits=Z, labels=np.arange(8), names=np.array(["a", "b", "c"]), bpmcli=np.array("{}"), seed=np.array(3)
    )
    found = NpzReader(str(path))
    assert list(found.columns) == ["logits", "labels", "names"]
    assert (found.columns["logits"].width, found.columns["logits"].rows) == (3, 8)
    assert found.metadata == {"bpmcli": "{}"}
    assert found.others == ["seed"]
    assert (found.n_rows, found.count_rows()) == (8, 8)
    assert found.file_arrays("logits") == ["names", "seed"]
    with found.opened_array("seed") as raw:
        assert npy.read_array(raw).item() == 3


def test_an_archive_without_arrays(path):
    with zipfile.ZipFile(path, "w"):
        pass
    found = NpzReader(str(path))
    assert (found.n_rows, found.count_rows(), found.columns) == (None, 0, {})
    assert NpzReader.recognises(path.read_bytes())
    assert NpzReader.recognises(b"PK\x03\x04rest")
    assert not NpzReader.recognises(b"PK\x01\x02")


def test_arrays_without_rows(path):
    np.savez(path, logits=Z[:0], labels=np.arange(0))
    found = NpzReader(str(path))
    assert (found.n_rows, found.count_rows()) == (0, 0)


def test_an_array_cut_short_by_a_few_bytes_is_refused_at_once(path):
    raw = io.BytesIO()
    np.save(raw, Z)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("z.npy", raw.getvalue()[:-8])
    with pytest.raises(DataError, match="array 'z' ends too early"):
        NpzReader(str(path))


def test_a_scalar_of_text_is_metadata_only_under_our_name(path):
    np.savez(path, logits=Z, bpmcli_note=np.array("hi"), note=np.array("hi"), bpmcli_number=np.array(1.5))
    found = NpzReader(str(path))
    assert found.metadata == {"bpmcli_note": "hi"}
    assert found.others == ["note", "bpmcli_number"]


@pytest.mark.parametrize(("limit", "refused"), [(8, False), (7, True)])
def test_metadata_may_be_only_so_long(path, monkeypatch, limit, refused):
    monkeypatch.setattr(npz_file, "LARGEST_TEXT", limit)
    np.savez(path, logits=Z, bpmcli=np.array("hi"))  # two characters of four bytes
    if refused:
        with pytest.raises(DataError, match="'bpmcli' claims 0 MB of metadata"):
            NpzReader(str(path))
    else:
        assert NpzReader(str(path)).metadata == {"bpmcli": "hi"}


def test_two_arrays_of_one_name_are_refused(path):
    raw = io.BytesIO()
    np.save(raw, Z)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("z.npy", raw.getvalue())
        archive.writestr("z", raw.getvalue())
    with pytest.raises(DataError, match="two arrays are called 'z'"):
        NpzReader(str(path))


def test_batches_hold_what_was_asked_and_pass_on_the_rest(path, monkeypatch):
    np.savez(path, logits=Z, labels=np.arange(8), group=np.array(list("abcdefgh")), other=np.arange(5))
    monkeypatch.setattr(reader, "BATCH_VALUES", 15)  # five values a row: three rows at a time
    found = list(NpzReader(str(path)).batches(["logits", "labels"], numeric=["logits"], rest=True))
    assert [(batch.start, batch.n) for batch in found] == [(0, 3), (3, 3), (6, 2)]
    assert [list(batch.columns) for batch in found] == [["logits", "labels"]] * 3
    assert [list(batch.passed) for batch in found] == [["labels", "group"]] * 3
    np.testing.assert_array_equal(np.concatenate([batch.columns["logits"] for batch in found]), Z)
    assert "".join("".join(batch.passed["group"]) for batch in found) == "abcdefgh"
    (alone,) = NpzReader(str(path)).batches(["other"])
    assert alone.n == 5
    assert alone.passed == {}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_in_fortran_order_after_others(path, save):
    save(path, first=np.arange(99), logits=np.asfortranarray(Z), labels=np.arange(8))
    (batch,) = NpzReader(str(path)).batches(["logits", "labels"])
    np.testing.assert_array_equal(batch.columns["logits"], Z)
    np.testing.assert_array_equal(batch.columns["labels"], np.arange(8))


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"Classes": np.array(["x", "y", "z"])}, ("x", "y", "z")),
        ({"class_names": np.array([b"x", b"y", b"z"])}, ("x", "y", "z")),
        ({"classes": np.array(["x", "y"])}, None),
        ({"classes": np.arange(3)}, None),
        ({"classes": np.array([["x", "y"]] * 3)}, None),
        ({"kinds": np.array(["x", "y", "z"])}, None),
    ],
)
def test_class_names_in_the_archive(path, arrays, expected):
    np.savez(path, logits=Z, **arrays)
    assert NpzReader(str(path)).class_names("labels", 3) == expected


def test_what_is_written_is_read_again(path):
    batches = [{"logits": Z[:5], "text": np.array(["a"] * 5)}, {"logits": Z[5:], "text": np.array(["bcd"] * 3)}]
    found = written(path, *batches, metadata={"bpmcli": "{}"})
    assert (found.metadata, found.n_rows) == ({"bpmcli": "{}"}, 8)
    np.testing.assert_array_equal(arrays(path)["logits"], Z)
    assert arrays(path)["text"].tolist() == ["a"] * 5 + ["bcd"] * 3
    assert arrays(path)["text"].dtype == "<U3"
    before = path.read_bytes()
    written(path, *batches, metadata={"bpmcli": "{}"})
    assert path.read_bytes() == before
    with zipfile.ZipFile(path) as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_pieces_of_any_size_come_out_whole(path, monkeypatch):
    monkeypatch.setattr(npz_file, "PIECE", 16)  # two values at a time
    written(path, {"x": np.arange(7)}, {"x": np.array([0.5, np.nan])})
    np.testing.assert_array_equal(arrays(path)["x"], [0, 1, 2, 3, 4, 5, 6, 0.5, np.nan])
    assert arrays(path)["x"].dtype == np.float64
    written(path, {"x": np.arange(7, dtype=np.int8)})
    assert arrays(path)["x"].dtype == np.int8
    written(path, {"x": np.array([1, 2**60])}, {"x": np.array([3])})
    assert arrays(path)["x"].tolist() == [1, 2**60, 3]
    written(path, {"x": np.array([1, 2], dtype=">i4")}, {"x": np.array([3], dtype=">i4")})
    assert arrays(path)["x"].dtype == np.dtype(">i4")
    written(path, {"x": np.zeros((3, 0))})
    assert arrays(path)["x"].shape == (3, 0)


@pytest.mark.parametrize(("number", "refused"), [(2**53 - 1, False), (2**53, True), (-(2**53), True)])
def test_whole_numbers_beside_floats_must_be_exact(path, number, refused):
    batches = ({"x": np.array([0.5])}, {"x": np.array([1, number, 2])})
    if refused:
        with pytest.raises(DataError, match="'x' has missing values beside whole numbers that float64 cannot hold"):
            written(path, *batches)
    else:
        written(path, *batches)
        assert arrays(path)["x"].tolist() == [0.5, 1, number, 2]


def test_lists_of_another_length_are_refused(path):
    with pytest.raises(DataError, match="'z' holds lists of different lengths, which npz cannot hold"):
        written(path, {"z": Z}, {"z": Z[:, :2]})
    written(path, {"z": Z}, {"z": Z[:2]})
    assert arrays(path)["z"].shape == (10, 3)


@pytest.mark.parametrize(("limit", "refused"), [(4 * 3 * 5, False), (4 * 3 * 5 - 1, True)])
def test_text_may_not_be_padded_without_limit(path, monkeypatch, limit, refused):
    # Five texts, the longest of three characters of four bytes.
    monkeypatch.setattr(npz_file, "LARGEST_PADDED", limit)
    batches = ({"t": np.array(["a", "b", "c"])}, {"t": np.array(["abc", "d"])}, {"n": np.zeros(1000)})
    if refused:
        with pytest.raises(DataError, match="'t' holds text that takes more than 0 GiB padded"):
            written(path, *batches[:2])
    else:
        written(path, *batches[:2])
        assert arrays(path)["t"].tolist() == ["a", "b", "c", "abc", "d"]
    written(path, batches[2])  # numbers are not padded


def test_text_that_takes_a_gigabyte_is_refused(path):
    chunks = [npz_file._Chunk(0, np.dtype("<U2"), (rows,)) for rows in (1 << 20, (1 << 27) - (1 << 20), 1)]
    writer = NpzWriter(str(path), {})
    writer._check_padding("t", chunks[:2])
    with pytest.raises(DataError, match="'t' holds text that takes more than 1 GiB padded to its longest value"):
        writer._check_padding("t", chunks)
    writer.abandon()


def test_metadata_of_more_than_16_megabytes_is_refused(path):
    np.savez(path, logits=Z, bpmcli=np.array("a" * ((1 << 22) + 1)))
    with pytest.raises(DataError, match="'bpmcli' claims 16 MB of metadata"):
        NpzReader(str(path))


def test_names_are_as_long_as_zip_allows(path, tmp_path):
    longest = "k" * (65_535 - len(".npy"))
    written(path, {longest: np.arange(3)})
    assert list(arrays(path)) == [longest]
    with pytest.raises(DataError, match="…' has a name of more than 65535 bytes, which npz cannot hold"):
        written(path, {longest + "k": np.arange(3)})
    with zipfile.ZipFile(tmp_path / "from.npz", "w") as archive:
        archive.writestr("logits.npy", npy_bytes(Z))
        archive.writestr(longest + "k", npy_bytes(np.arange(2)))
    with pytest.raises(DataError, match="…' has a name of more than 65535 bytes, which npz cannot hold"):
        written(path, {"logits": Z}, origin=NpzReader(str(tmp_path / "from.npz")))


def test_arrays_may_be_larger_than_2_gigabytes(path, tmp_path, monkeypatch):
    """zipfile has to know before it writes an array that it may be."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1000)
    np.savez(tmp_path / "from.npz", logits=Z, table=np.arange(500))
    written(path, {"logits": np.ones((8, 300))}, origin=NpzReader(str(tmp_path / "from.npz")))
    assert arrays(path)["logits"].shape == (8, 300)
    assert arrays(path)["table"].tolist() == list(range(500))


def test_objects_are_written_only_if_they_are_the_scores(path):
    """Of other objects it is not known what their keys mean."""
    objects = pa.array([{"cat": 0.25, "dog": 0.75}, {"cat": 0.5, "dog": 0.5}])
    for keyed in ("probs", "other"):
        writer = NpzWriter(str(path), {})
        writer.keyed = keyed
        if keyed == "other":
            with pytest.raises(DataError, match="'probs' holds values of type struct<cat: double, dog: double>"):
                writer.write({"probs": objects})
            writer.abandon()
        else:
            writer.write({"probs": objects})
            writer.close()
            assert arrays(path)["probs"].tolist() == [[0.25, 0.75], [0.5, 0.5]]


@pytest.mark.parametrize("piece", [7, 1 << 20])
def test_arrays_of_the_file_are_copied(path, tmp_path, monkeypatch, piece):
    monkeypatch.setattr(npz_file, "PIECE", piece)
    np.savez(tmp_path / "from.npz", logits=Z, names=np.array(["a", "b"]), seed=np.array(3), probs=np.arange(4))
    origin = NpzReader(str(tmp_path / "from.npz"))
    found = written(path, {"probs": Z}, origin=origin)
    assert list(arrays(path)) == ["probs", "names", "seed"]
    assert arrays(path)["names"].tolist() == ["a", "b"]
    assert arrays(path)["probs"].shape == (8, 3)  # what was written stays
    assert found.others == ["seed"]


def test_a_writer_knows_what_it_carried(path, tmp_path):
    np.savez(tmp_path / "from.npz", logits=Z, names=np.array(["a", "b"]))
    writer = NpzWriter(str(path), {})
    assert writer.carry(NpzReader(str(tmp_path / "from.npz")), ["names"]) is True
    assert writer.carried == ["names"]
    writer.abandon()
    assert writer.file.closed
    assert not path.exists()


def test_a_damaged_array_of_the_file_is_reported_as_damage(path, tmp_path):
    """Found by the fuzzer (4001:6969): exit code 70."""
    np.savez(path, logits=Z, note=np.arange(5000.0))
    whole = bytearray(path.read_bytes())
    whole[whole.index(np.arange(4990.0, 4995.0).tobytes())] ^= 1
    path.write_bytes(whole)
    origin = NpzReader(str(path))
    origin.inspect()
    with pytest.raises(DataError, match="cannot be read as npz: Bad CRC-32"):
        written(tmp_path / "out.npz", {"logits": Z}, origin=origin)
