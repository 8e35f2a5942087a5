"""Files that lie about themselves: a sentence, within a memory budget, and never a crash."""

from __future__ import annotations

import errno
import gzip
import json
import os
import resource
import struct
import subprocess
import sys
import threading
import zipfile
from io import BytesIO
from pathlib import Path

import forked
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from packed import add_repeated

from bpmcli.cli import main
from bpmcli.errors import DataError
from bpmcli.io import read_rows
from bpmcli.io.formats import hdf5_heap, record_batches
from bpmcli.io.layout import InputOptions
from bpmcli.io.opening import copied, open_reader
from bpmcli.io.remote import read_start
from bpmcli.io.writers import atomic_path

BUDGET = 1 << 30
"""Peak memory of any command over any input: one gigabyte."""

SECONDS = 60
"""A limit for hangs only, on a busy machine."""


def bpmcli(*argv: object) -> tuple[int, str, int]:
    """Exit code, standard error and peak memory of a command in a process of its own."""
    done = forked.run(*argv, seconds=SECONDS, as_library=True)
    return done.code, done.err, int(done.megabytes * (1 << 20))


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def identity() -> str:
    np.savez("fit.npz", confidence=np.linspace(0.5, 0.9, 40), hit=np.arange(40) % 2)
    assert main(["fit", "fit.npz", "--method", "identity", "-o", "p.json", "-q"]) == 0
    return "p.json"


def damaged_arrow(offset: int) -> None:
    n = 1000
    table = pa.table({"confidence": np.full(n, 0.7), "hit": np.arange(n) % 2, "site": [f"s{i % 7}" for i in range(n)]})
    pyarrow.feather.write_feather(table, "a.arrow", compression="uncompressed")
    data = Path("a.arrow").read_bytes()
    known = struct.pack("<4i", 2 * 500, 2 * 501, 2 * 502, 2 * 503)
    at = data.index(known)
    Path("a.arrow").write_bytes(data[:at] + struct.pack("<i", offset) + data[at + 4 :])


@pytest.mark.parametrize("offset", [5000, -7])  # 2,000,000,000: fuzz/findings/test_resources.py
@pytest.mark.parametrize(
    "command", [["metrics", "a.arrow", "--by", "site"], ["apply", "p.json", "a.arrow", "-o", "x.csv"]]
)
def test_a_damaged_offset_is_a_sentence(offset, command):
    identity()
    damaged_arrow(offset)
    code, err, _ = bpmcli(*command)
    assert code == 3, err
    assert "column 'site' is damaged" in err
    assert not Path("x.csv").exists()


def test_an_arrow_file_cut_off_while_it_is_read_is_a_sentence():
    n = 400_000
    table = pa.table({"confidence": np.full(n, 0.7), "hit": np.arange(n) % 2})
    with pa.ipc.new_file("a.arrow", table.schema) as out:
        out.write_table(table, max_chunksize=1000)
    batches = open_reader("a.arrow").batches(["confidence", "hit"])
    next(batches)
    os.truncate("a.arrow", 50_000)
    with pytest.raises(DataError):
        list(batches)


def test_one_long_text_does_not_pad_the_others():
    rows = ["confidence,hit,site\n", *["0.7,1,a\n0.6,0,b\n"] * 5_000, f"0.7,1,{'x' * 50_000}\n"]
    Path("a.csv").write_text("".join(rows))
    code, err, peak = bpmcli("metrics", "a.csv", "--by", "site", "--metric", "ece")
    assert code == 0, err
    assert peak < BUDGET / 2
    n = 10_000  # rows, in which this text takes 1.2 GB as an array of numpy
    site = pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int32()), ["x" * 30_000])
    table = pa.table({"confidence": [0.7] * n, "hit": np.arange(n) % 2, "site": site})
    pq.write_table(table, "a.parquet", store_schema=False)
    assert os.path.getsize("a.parquet") < 1 << 20
    code, err, peak = bpmcli("metrics", "a.parquet", "--by", "site", "--metric", "ece")
    assert code == 0, err
    assert peak < BUDGET / 2
    identity()
    long = [1] * 2_500 + [0] * 7_500  # two batches of long texts, and short ones that are padded as well
    site = pa.DictionaryArray.from_arrays(pa.array(long, pa.int32()), ["x", "x" * 30_000])
    pq.write_table(table.set_column(2, "site", site), "b.parquet", store_schema=False)
    code, err, peak = bpmcli("apply", "p.json", "b.parquet", "-o", "x.npz")
    assert code == 3, err
    assert "'site' holds text that takes more than 1 GiB padded" in err
    assert peak < BUDGET


@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
def test_repeated_text_comes_in_pieces_that_can_be_written_row_by_row(suffix, monkeypatch):
    """A dictionary with one long text took 1.7 GB on its way into a csv file."""
    monkeypatch.setattr(record_batches, "BATCH_BYTES", 10_000)
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 1] * 100, pa.int32()), ["x" * 500, "y", "z" * 90])
    table = pa.table({"confidence": [0.7] * 400, "hit": [0, 1] * 200, "note": words})
    with (pq.ParquetWriter if suffix == "parquet" else pa.ipc.new_file)(f"a.{suffix}", table.schema) as out:
        out.write_table(table)
    batches = open_reader(f"a.{suffix}").batches(["confidence"], ["confidence"], rest=True)
    pieces = [batch.passed["note"] for batch in batches]
    assert all(pa.types.is_dictionary(piece.type) for piece in pieces)
    assert [text for piece in pieces for text in piece.to_pylist()] == words.to_pylist()
    assert max(sum(map(len, piece.to_pylist())) for piece in pieces) <= 10_000


def test_one_long_list_does_not_pad_the_others():
    lines = [json.dumps({"logprobs": [-0.1, -2.5], "label": i % 2}) + "\n" for i in range(11_000)]
    lines[5_000] = json.dumps({"logprobs": [-5.0] * 30_000, "label": 0}) + "\n"
    Path("a.jsonl").write_text("".join(lines))
    code, err, peak = bpmcli("metrics", "a.jsonl", "--metric", "ece")
    assert code == 0, err
    assert peak < BUDGET / 2
    identity()
    code, err, peak = bpmcli("apply", "p.json", "a.jsonl", "-o", "x.jsonl")
    assert code == 0, err
    assert peak < BUDGET / 2
    out = [json.loads(line) for line in Path("x.jsonl").read_text().splitlines()]
    assert [len(next(iter(row.values()))) for row in out[4_999:5_002]] == [2, 30_000, 2]


def test_batches_of_lists_with_different_numbers_of_classes_fit_together():
    rows = [
        json.dumps({"logprobs": [-0.1 * k for k in range(1, 3 + (i > 7_000))], "label": i % 2}) for i in range(10_000)
    ]
    Path("a.jsonl").write_text("\n".join([*rows, json.dumps({"logprobs": [-1.0] * 200, "label": 0})]))
    loaded = read_rows("a.jsonl", distributions=True).rows
    assert loaded.logits is not None
    assert loaded.logits.shape == (10_001, 200)


def test_a_huge_text_in_an_archive_is_not_read():
    with zipfile.ZipFile("a.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in (("confidence", np.full(100, 0.7)), ("hit", np.arange(100) % 2)):
            data = BytesIO()
            np.save(data, array)
            archive.writestr(f"{name}.npy", data.getvalue())
        header = BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "<U100000000", "fortran_order": False, "shape": ()})
        add_repeated(archive, "note.npy", header.getvalue(), bytes(1_000_000), 400)
    code, err, peak = bpmcli("metrics", "a.npz", "--metric", "ece")
    assert code == 0, err
    assert peak < BUDGET / 4
    identity()
    code, err, peak = bpmcli("apply", "p.json", "a.npz", "-o", "x.csv")
    assert code == 0, err
    assert peak < BUDGET / 4


@pytest.mark.parametrize("shape", [(10**12,), (5, 10**11), (10**6, 10**6), (2**40, 2**40)])
@pytest.mark.parametrize("suffix", [".npz", ".npy"])
def test_an_array_that_claims_more_than_there_is(shape, suffix):
    data = BytesIO()
    np.lib.format.write_array_header_1_0(data, {"descr": "<f8", "fortran_order": False, "shape": shape})
    data.write(bytes(800))
    Path("a_logits.npy").write_bytes(data.getvalue())
    np.save("a_labels.npy", np.zeros(10, dtype=int))
    if suffix == ".npz":
        with zipfile.ZipFile("a.npz", "w") as archive:
            archive.write("a_logits.npy", "logits.npy")
            archive.write("a_labels.npy", "labels.npy")
    with pytest.raises(DataError, match="array '.*logits' ends too early"):
        read_rows("a.npz" if suffix == ".npz" else "a_logits.npy")


@pytest.mark.parametrize("version", [1, 2])
def test_a_header_that_fills_the_memory_is_not_read(version):
    with zipfile.ZipFile("a.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in (("confidence", np.full(100, 0.7)), ("hit", np.arange(100) % 2)):
            data = BytesIO()
            np.save(data, array)
            archive.writestr(f"{name}.npy", data.getvalue())
        start = b"\x93NUMPY" + bytes([version, 0]) + (b"\xff\xff" if version == 1 else b"\xff\xff\xff\x7f")
        add_repeated(archive, "note.npy", start, b" " * 1_000_000, 400)
    code, err, peak = bpmcli("metrics", "a.npz", "--metric", "ece")
    assert code == 3, err
    assert ("claims a header of 2147483647 bytes" in err) == (version == 2)
    assert peak < BUDGET / 4


def test_a_row_that_fills_the_memory_is_refused():
    header = BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (1, 1 << 26)})
    with zipfile.ZipFile("a.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        add_repeated(archive, "logits.npy", header.getvalue(), bytes(1 << 20), 512)
        labels = BytesIO()
        np.save(labels, np.zeros(1, dtype=int))
        archive.writestr("labels.npy", labels.getvalue())
    code, err, peak = bpmcli("metrics", "a.npz")
    assert code == 3, err
    assert "a single row takes 512 MB" in err
    assert peak < BUDGET / 4


def test_many_columns_are_written_in_linear_time():
    """They are also read in linear time: fuzz/findings/test_resources.py, B03."""
    k = 4_000
    names = ",".join(f"prob_{i}" for i in range(k))
    row = ",".join(["0.9"] + [f"{0.1 / (k - 1):.3g}"] * (k - 1))
    Path("a.csv").write_text(f"{names},label\n{row},0\n{row},1\n")
    identity()
    done = forked.run("apply", "p.json", "a.csv", "-o", "x.csv", limits={resource.RLIMIT_CPU: 10})
    assert done.code == 0, done
    assert done.megabytes < BUDGET >> 20


@pytest.mark.parametrize("where", ["name", "fifo", "gzip"])
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "npz", "parquet", "arrow", "npy"])
def test_streams_of_every_format_are_read_once(where, suffix):
    n = 60
    s, h = np.linspace(0.5, 0.99, n), np.arange(n) % 2
    table = pa.table({"confidence": s, "hit": h})
    lines = [f"{a!r},{b}" for a, b in zip(s.tolist(), h.tolist(), strict=True)]
    if suffix == "csv":
        Path("a.csv").write_text("confidence,hit\n" + "\n".join(lines) + "\n")
    elif suffix == "jsonl":
        Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    elif suffix == "npz":
        np.savez("a.npz", confidence=s, hit=h)
    elif suffix == "npy":
        np.save("a.npy", np.array(list(zip(s, h, strict=True)), dtype=[("confidence", "f8"), ("hit", "i4")]))
    else:
        (pq.write_table if suffix == "parquet" else pyarrow.feather.write_feather)(table, f"a.{suffix}")
    expected = read_rows(f"a.{suffix}").rows.log_odds
    data = Path(f"a.{suffix}").read_bytes()
    if where == "gzip":
        if suffix not in ("csv", "jsonl"):
            pytest.skip("only text is read from gzip")
        data = gzip.compress(data)
    if where in ("name", "gzip"):
        Path("nameless").write_bytes(data)
        assert np.array_equal(read_rows("nameless").rows.log_odds, expected)
        return
    writer = written_to_a_pipe(data)
    assert np.array_equal(read_rows("pipe").rows.log_odds, expected)
    assert np.array_equal(read_rows("pipe").rows.log_odds, expected)
    writer.join(SECONDS)
    assert not writer.is_alive()


def written_to_a_pipe(data):
    """A thread that writes into a new pipe."""
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_bytes(data), daemon=True)
    writer.start()
    return writer


def test_a_pipe_in_the_place_of_a_deleted_one_is_read():
    """File systems give a new pipe the number of one that was deleted, so the number alone does not tell them apart."""
    for hits in ([1, 0, 1, 0], [1, 1, 1, 0]):
        writer = written_to_a_pipe(("confidence,hit\n" + "".join(f"0.9,{hit}\n" for hit in hits)).encode())
        assert read_rows("pipe").rows.hits.sum() == sum(hits)
        writer.join(SECONDS)
        os.unlink("pipe")


def write_a_file(path):
    with atomic_path(path):
        open(path, "rb")  # noqa: SIM115


@pytest.mark.parametrize("use", [copied, lambda path: read_start(path, 9), write_a_file], ids=["copy", "read", "write"])
def test_too_few_descriptors_have_a_hint_that_helps(monkeypatch, use):
    def refuse(*_, **__):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    Path("a.csv").write_text("confidence,hit\n0.9,1\n")
    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", refuse)
        with pytest.raises(DataError, match="^too many open files$") as error:
            use("a.csv")
    assert error.value.hint.startswith("raise the limit: ulimit -n ")


def test_standard_input_by_its_path():
    argv = [sys.executable, "-m", "bpmcli", "metrics", "/dev/stdin", "--metric", "ece"]
    ran = subprocess.run(argv, capture_output=True, input=b"confidence,hit\n0.9,1\n0.6,0\n", timeout=SECONDS)
    assert ran.returncode == 0, ran


def test_process_substitution():
    with gzip.open("x.csv.gz", "wt") as out:
        out.write("confidence,hit\n" + "0.9,1\n0.6,0\n" * 40)
    command = f"{sys.executable} -m bpmcli metrics <(zcat x.csv.gz) <(zcat x.csv.gz | head -41) --metric ece -j 2"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=SECONDS)
    assert ran.returncode == 0, ran.stderr
    assert " 80 " in ran.stdout
    assert " 40 " in ran.stdout


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
def test_endless_devices_end(device):
    identity()
    os.symlink(device, "x.csv")
    for command in (["metrics", "x.csv"], ["apply", "p.json", device, "-o", "out.csv"]):
        code, err, peak = bpmcli(*command)
        assert code == 3, err
        assert "is neither text nor a known format" in err
        assert peak < BUDGET / 4


def test_endless_text_ends(monkeypatch):
    from bpmcli.io import opening

    monkeypatch.setattr(opening, "STREAM_LIMIT", 1 << 22)
    os.mkfifo("pipe")

    def endless() -> None:
        try:
            with open("pipe", "w") as out:
                while True:
                    out.write("confidence,hit\n" * 1000)
        except BrokenPipeError:
            pass

    writer = threading.Thread(target=endless, daemon=True)
    writer.start()
    with pytest.raises(DataError, match="the limit for pipes and devices"):
        read_rows("pipe")
    writer.join(SECONDS)
    assert not writer.is_alive()


def test_bad_bytes_far_inside_a_csv_file_print_no_traceback():
    Path("a.csv").write_bytes(b"confidence,hit\n" + b"0.5,1\n" * 20_000 + b"0.5,\xff,1\n")
    code, err, _ = bpmcli("metrics", "a.csv")
    assert code == 3
    assert "line 20002 has 3 fields, the header 2" in err
    assert "Traceback" not in err
    assert "Exception" not in err
    Path("b.csv").write_bytes(b"confidence,hit,site\n" + b"0.5,1,a\n" * 20_000 + b"0.5,1,\xff\n")
    code, err, _ = bpmcli("metrics", "b.csv", "--by", "site")
    assert code == 3
    assert "is not text (UTF-8) (line 20002)" in err


def test_structured_labels_are_a_sentence():
    y = np.zeros(3, dtype=[("a", "i4"), ("b", "f4")])
    np.savez("a.npz", confidence=[0.5, 0.6, 0.7], hit=y)
    np.savez("b.npz", logits=np.zeros((3, 2)), label=y)
    for name in ("a.npz", "b.npz"):
        with pytest.raises(DataError):
            read_rows(name)


def test_groups_of_any_number_cost_no_more_than_their_rows():
    n = 100_000
    pq.write_table(pa.table({"confidence": np.full(n, 0.7), "hit": np.arange(n) % 2, "who": np.arange(n)}), "a.parquet")
    rows = read_rows("a.parquet", InputOptions(group="who")).rows
    assert rows.groups is not None
    assert sum(1 for _ in rows.groups.positions()) == n


def test_the_namibian_group_is_not_missing():
    text = "confidence,hit,land\n" + "0.9,1,NA\n0.6,0,NA\n0.8,1,DE\n"
    Path("a.csv").write_text(text)
    rows = read_rows("a.csv", InputOptions(group="land")).rows
    assert rows.groups is not None
    assert rows.groups.tolist() == ["NA", "NA", "DE"]
    Path("b.csv").write_text(text + "0.7,1,\n")
    with pytest.raises(DataError, match=r"missing in 'land' \(row 4"):
        read_rows("b.csv", InputOptions(group="land"))


def test_text_beyond_unicode_is_refused(run, tmp_path):
    rows = np.zeros(3, dtype=[("confidence", "f8"), ("hit", "i8"), ("site", "U2")])
    rows["confidence"] = 0.5
    content = bytearray(rows.tobytes())
    content[16:20] = b"\xff\xff\xff\xff"
    path = tmp_path / "a.npy"
    np.save(path, np.frombuffer(bytes(content), dtype=rows.dtype))
    assert "'site' holds text that is not valid Unicode" in run("metrics", path, "--by", "site", code=3).err


@pytest.mark.parametrize("escape", ["\\ud800", "\\udc00x", "\\ud83d \\ude00"])
def test_half_a_surrogate_pair_is_valid_json(run, tmp_path, escape):
    path, out = tmp_path / "a.jsonl", tmp_path / "o.jsonl"
    line = '{"confidence": 0.7, "hit": 1, "note": "' + escape + '", "emoji": "\\ud83d\\ude00"}\n'
    path.write_text(line * 40 + line.replace('"hit": 1', '"hit": 0') * 30)
    run("metrics", path, "-m", "ece")
    run("fit", path, "--method", "platt", "-o", tmp_path / "p.json")
    run("apply", tmp_path / "p.json", path, "-o", out)
    assert [json.loads(x)["note"] for x in out.read_text().splitlines()] == [json.loads(f'"{escape}"')] * 70
    run("metrics", out, "-m", "ece")
    refused = run("apply", tmp_path / "p.json", path, "-o", tmp_path / "o.parquet", code=3)
    assert "half of a surrogate pair" in refused.err


def test_surrogate_pairs_survive_the_borders_of_blocks():
    from bpmcli.io.formats.json_lines import CheckedLines

    text = b"".join(b'{"a": "%s\\ud83d\\ude00\\\\ud800"}\n' % (b"x" * k) for k in range(60))
    for size in (97, 100, 128, 200, 1000):
        lines = CheckedLines(BytesIO(text))
        assert b"".join(iter(lambda lines=lines, size=size: lines.read(size), b"")) == text
        assert not lines.replaced


def packed_arrow(path: Path, stream: bool) -> bytes:
    """A compressed file whose first buffer claims to unpack to 4 GB."""
    table = pa.table({"confidence": np.full(5000, 0.5), "hit": np.arange(5000) % 2})
    options, out = pa.ipc.IpcWriteOptions(compression="zstd"), BytesIO()
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(out, table.schema, options=options) as writer:
        writer.write_table(table)
    content = out.getvalue().replace(struct.pack("<q", 40_000), struct.pack("<q", 4 << 30), 1)
    path.write_bytes(content)
    return content


@pytest.mark.parametrize("name", ["a.arrow", "a.arrows"])
def test_what_compressed_buffers_claim_is_checked_before_they_are_unpacked(tmp_path, name):
    assert struct.pack("<q", 4 << 30) in packed_arrow(tmp_path / name, name.endswith("s"))
    with pytest.raises(DataError, match=r"claims 4\d{3} MB packed into \d+ bytes"):
        read_rows(str(tmp_path / name))


def test_rows_that_are_not_stored_are_refused(tmp_path):
    path, names = tmp_path / "a.arrow", ["confidence", "hit"]
    nothing, out = [pa.nulls(7777777)] * 2, BytesIO()
    with pa.ipc.new_file(out, pa.schema([(name, pa.null()) for name in names])) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(nothing, names=names))
    path.write_bytes(out.getvalue().replace(struct.pack("<q", 7777777), struct.pack("<q", 10**12)))
    with pytest.raises(DataError, match="claims 1000000000000 rows in 0 bytes"):
        read_rows(str(path))


def test_what_an_hdf5_file_claims_is_checked(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("confidence", shape=(2**33,), dtype="f8", chunks=(2**20,), fillvalue=0.5)
        file.create_dataset("hit", data=np.ones(5))
    with pytest.raises(DataError, match="'confidence' claims 65536 MB, of which 0 bytes are stored"):
        read_rows(str(path))
    with h5py.File(path, "w") as file:
        file.create_dataset("confidence", shape=(2**24 + 1,), dtype="f8", chunks=(2**24 + 1,), compression="gzip")
    with pytest.raises(DataError, match="is stored in chunks of 128 MB"):
        read_rows(str(path))


def test_texts_without_an_end_in_an_hdf5_file_are_refused(tmp_path, monkeypatch):
    """Found by the fuzzer (3001:2652): the HDF5 library never ends if a heap of texts has a free space of 0 bytes."""
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["confidence"], file["hit"] = np.full(99, 0.75), np.arange(99) % 4 > 0
        file["site"] = ["north", "south", "a longer name"] * 33
    whole = path.read_bytes()
    heap = whole.index(b"GCOL\x01")
    place = heap + 16
    while (found := struct.unpack_from("<H6xQ", whole, place))[0]:
        place += 16 + (found[1] + 7) // 8 * 8
    assert found[1] == heap + struct.unpack_from("<Q", whole, heap + 8)[0] - place, "the free space ends the heap"
    for block in (hdf5_heap.BLOCK, heap + 2, 37):  # a heap may begin in one block and end in the next
        monkeypatch.setattr(hdf5_heap, "BLOCK", block)
        path.write_bytes(whole)
        assert read_rows(str(path), InputOptions(group="site")).rows.n == 99
        path.write_bytes(whole[: place + 8] + bytes(8) + whole[place + 16 :])
        with pytest.raises(DataError, match=f"the texts at byte {heap} have no end"):
            read_rows(str(path), InputOptions(group="site"))
    path.write_bytes(whole[: heap + 8] + b"\xff" * 8 + whole[heap + 16 : place + 8] + bytes(8) + whole[place + 16 :])
    with pytest.raises(DataError, match="have no end"):
        read_rows(str(path), InputOptions(group="site"))


def test_tables_have_a_limited_number_of_columns(tmp_path, monkeypatch):
    monkeypatch.setattr("bpmcli.io.formats.record_batches.MOST_COLUMNS", 10)
    path = tmp_path / "a.csv"
    path.write_text(",".join(["label", *(f"prob_{i}" for i in range(10))]) + "\n" + ",".join(["1"] + ["0.1"] * 10))
    with pytest.raises(DataError, match="has 11 columns, but at most 10 are read"):
        read_rows(str(path))


def test_lack_of_memory_is_a_bad_input_and_not_a_bug(run, tmp_path, monkeypatch):
    def greedy(*_: object, **__: object) -> None:
        raise MemoryError

    path = tmp_path / "a.csv"
    path.write_text("confidence,hit\n0.5,1\n")
    monkeypatch.setattr("bpmcli.io.readers.rows_of", greedy)
    assert "does not fit into memory" in run("metrics", path, code=3).err


def test_an_hdf5_group_inside_itself_is_visited_once(run, tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        group = file.create_group("a")
        group["again"], group["top"] = group, file["/"]
        group.create_dataset("confidence", data=np.full(30, 0.6))
        group.create_dataset("hit", data=np.arange(30) % 2)
    assert json.loads(run("metrics", path, "-m", "ece", "-f", "json", "-q").out)["results"][0]["n"] == 30


def test_a_configuration_file_of_gigabytes_is_not_read(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("confidence,hit\n0.5,1\n0.6,0\n")
    with open("bpmcli.toml", "wb") as file:
        file.truncate(3 << 30)
    assert "is larger than 1 MB" in run("metrics", "a.csv", code=2).err
    os.rename("bpmcli.toml", "pyproject.toml")
    run("metrics", "a.csv", "-m", "ece")


def test_a_pipe_beside_the_input_is_not_waited_for(run, tmp_path):
    np.savez(tmp_path / "a.npz", probs=np.full((4, 2), 0.5), label=np.array(["cat", "dog"] * 2))
    os.mkfifo(tmp_path / "classes.txt")
    run("metrics", tmp_path / "a.npz", "-m", "ece", code=3)
