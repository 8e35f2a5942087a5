"""Closed streams, odd names and signals never change what the exit code means."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import forked
import pytest
from conftest import PATIENCE, ROOT, SAMPLE_DATA, processor_time, until_busy, untraced

from bpmcli.cli import main
from bpmcli.cli.console import printable
from bpmcli.core.compare import before_after
from bpmcli.escape import markdown

TEST, VAL = SAMPLE_DATA / "digits_test.npz", SAMPLE_DATA / "digits_val.npz"
CSV = SAMPLE_DATA / "digits_overconfident.csv"
BPMCLI = f"{sys.executable} -m bpmcli"
EVIL = "\x1b[31mred\x07\nnext|line\x9b2J\u202e"
needs_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")


def shell(command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A command line of bash; `bpmcli` in it is this checkout."""
    env = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", str(ROOT)), **environment}
    env.pop("BPMCLI_DEBUG", None)
    text = f'bpmcli() {{ {BPMCLI} "$@"; }}; {command}'
    return subprocess.run(["bash", "-c", text], cwd=cwd, env=env, capture_output=True, timeout=120, check=False)


REDIRECTION = re.compile(r"(<|>|2>)([&/\w].*)")
STREAMS = {"<": "in", ">": "out", "2>": "err"}


def redirected(command: str, cwd: Path, **how: object) -> forked.Done:
    """The same command line, forked. It may have redirections, such as `2>/dev/full` or `>&-`."""
    words = command.split()[1:]
    found = [match.groups() for match in map(REDIRECTION.fullmatch, words) if match]
    streams = {STREAMS[mark]: None if path == "&-" else path for mark, path in found}
    argv = [word for word in words if not REDIRECTION.fullmatch(word)]
    env = {name: value for name, value in os.environ.items() if name != "BPMCLI_DEBUG"}
    return forked.run(*argv, cwd=cwd, environment=env, **streams, **how)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("fitted") / "params.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(before_after, "MOST_VALUES", 0)  # no verdicts, which nobody reads here
        assert main(["fit", str(VAL), "-o", str(path), "-q"]) == 0
    return path.read_bytes()


@pytest.fixture
def params(fitted: bytes, tmp_path: Path) -> Path:
    (tmp_path / "params.json").write_bytes(fitted)
    return tmp_path


# Streams that fail


IN_A_SHELL = [
    "bpmcli metrics digits.csv -m ece <&- >&- 2>&-",
    "bpmcli metrics nope.csv 2>/dev/full",
    "bpmcli fit digits.csv >&-",
]
"""Python itself starts with such streams; in the other cases a process gets them that has started already."""


@needs_full
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("bpmcli metrics nope.csv 2>/dev/full", 3),
        (f"bpmcli metrics {TEST} -m ece --fail-above ece=0.0001 2>/dev/full", 1),
        (f"bpmcli metrics {CSV} -m ece 2>/dev/full", 0),
        ("bpmcli metrics nope.csv 2>&-", 3),
        (f"bpmcli metrics {TEST} -m ece --fail-above ece=0.0001 2>&-", 1),
        (f"bpmcli metrics {TEST} -m ece >/dev/full", 3),
        (f"bpmcli metrics {TEST} -m ece -f json >/dev/full", 3),
        ("bpmcli simulate D1 -n 2000 >/dev/full", 3),
        ("bpmcli apply params.json digits.csv >/dev/full", 3),
        ("bpmcli apply params.json digits.csv -o /dev/full", 3),
        ("bpmcli apply params.json digits.csv >/dev/null", 0),
        ("bpmcli apply params.json digits.csv >&-", 3),
        ("bpmcli fit digits.csv >&-", 3),
        (f"bpmcli metrics {TEST} -m ece >&-", 0),
        (f"bpmcli metrics {TEST} -m ece --fail-above ece=0.0001 >&-", 1),
        ("bpmcli apply params.json digits.csv -o out.csv >&-", 0),
        ("bpmcli apply params.json digits.csv -o out.csv >&- 2>&-", 0),
        ("bpmcli metrics digits.csv -m ece <&- >&- 2>&-", 0),
        ("bpmcli --help >/dev/full", 3),
        ("bpmcli --help >&-", 3),
    ],
)
def test_a_stream_that_fails_does_not_change_the_exit_code(params, command, code):
    (params / "digits.csv").write_bytes(CSV.read_bytes())
    if command in IN_A_SHELL:
        ran = shell(command, params)
        found, err = ran.returncode, ran.stderr.decode()
    else:
        done = redirected(command, params)
        found, err = done.code, done.err
    assert found == code, err
    assert "Traceback" not in err
    assert "Exception ignored" not in err
    assert (params / "digits.csv").read_bytes() == CSV.read_bytes()
    if "-o out.csv" in command:
        assert len((params / "out.csv").read_bytes().splitlines()) == len(CSV.read_bytes().splitlines())


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "command", ["apply params.json digits.csv -q", "metrics digits.csv -m ece -f json --bins-table"]
)
def test_output_that_is_cut_off_is_an_error(params, command, unbuffered):
    """Only 1024 bytes can be written, as on a disk that is almost full. Unbuffered streams of Python do not notice."""
    (params / "digits.csv").write_bytes(CSV.read_bytes())
    if unbuffered:
        ran = shell(f"ulimit -f 1; bpmcli {command} >out", params, PYTHONUNBUFFERED=unbuffered)
        code, err = ran.returncode, ran.stderr.decode()
    else:
        done = redirected(f"bpmcli {command} >out", params, limits={resource.RLIMIT_FSIZE: 1024})
        code, err = done.code, done.err
    assert code == 3, err
    assert "File too large" in err
    assert "Traceback" not in err
    assert (params / "out").stat().st_size == 1024


def first_line(path: Path) -> bytes:
    """As `head -1` reads."""
    with open(path, "rb") as pipe:
        return pipe.readline()


@pytest.mark.parametrize("quiet", ["", "-q"])
@pytest.mark.parametrize("command", ["apply params.json digits.csv", f"metrics {TEST} -m ece", "simulate D1 -n 100000"])
def test_a_reader_that_leaves_ends_the_command_quietly(params, command, quiet):
    lines = CSV.read_bytes().splitlines(True)
    (params / "digits.csv").write_bytes(b"".join([*lines, *lines[1:] * 15]))  # far more than a pipe holds
    os.mkfifo(params / "pipe")
    with ThreadPoolExecutor() as pool:
        read = pool.submit(first_line, params / "pipe")
        done = redirected(f"bpmcli {command} {quiet} >pipe", params)
        assert read.result()
    assert done.code == 0, done
    assert "error:" not in done.err


# Encodings and names


FORMATS = ("table", "json", "csv", "markdown")
EVERY_FORMAT = f"""
import glob, sys
from bpmcli.cli import main
for name in sorted(glob.glob("*.npz")):
    for number, form in enumerate({FORMATS}):
        if main(["metrics", name, "-m", "ece", "-f", form]):
            sys.exit(number + 1)
        sys.stdout.flush()
        sys.stdout.buffer.write(b"\\0")
"""


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_no_encoding_and_no_name_is_a_bug(tmp_path, encoding):
    if sys.platform != "linux":
        pytest.skip("other systems refuse such names")
    names = [b"\xc3\xa9\xf0\x9f\x8e\x89.npz", b"\xff\xfe.npz"]
    for name in names:
        (tmp_path / os.fsdecode(name)).write_bytes(TEST.read_bytes())
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding}
    ran = subprocess.run([sys.executable, "-c", EVERY_FORMAT], capture_output=True, env=env, cwd=tmp_path, check=False)
    assert ran.returncode == 0, ran
    texts = ran.stdout.split(b"\0")
    assert len(texts) == 2 * len(FORMATS) + 1
    for i, name in enumerate(sorted(names, key=os.fsdecode)):
        printed = dict(zip(FORMATS, texts[i * len(FORMATS) :], strict=False))
        assert all(printed.values())
        assert json.loads(printed["json"])["results"][0]["input"] == os.fsdecode(name)
        assert name in printed["csv"]


BATCHES = """
import os
from bpmcli.cli import main
from bpmcli.core.compare import before_after
from bpmcli.tasks import apply
before_after.MOST_VALUES = apply.JUDGED_ROWS = 0  # no verdicts
name = os.fsdecode(b"in/\\xff.npz")
for argv in (
    *2 * [["apply", "params.json", "in", "--output-dir", "out"]],
    ["fit", name, "-o", "p2.json"],
    ["apply", "p2.json", name, "-o", "out.npz"],
):
    assert main(argv) == 0, argv
"""


def test_odd_settings_of_libraries_are_no_bug(tmp_path):
    command = f"bpmcli metrics {SAMPLE_DATA}/digits_test.npz -m tce --plot x.png -q"
    done = shell(command, tmp_path, SOURCE_DATE_EPOCH="yesterday", MPLBACKEND="nonsense")
    assert done.returncode == 0, done.stderr.decode()
    assert (tmp_path / "x.png").exists()


def test_a_name_that_is_not_utf8_goes_through_a_batch(params):
    if sys.platform != "linux":
        pytest.skip("other systems refuse such names")
    (params / "in").mkdir()
    (params / "in" / os.fsdecode(b"\xff.npz")).write_bytes(TEST.read_bytes())
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", BATCHES], capture_output=True, env=env, cwd=params, check=False)
    assert ran.returncode == 0, ran
    assert b"1 of 1" in ran.stderr, "the second run finds the record of the first"
    assert os.fsdecode(b"\xff.npz") in os.listdir(params / "out")
    assert (params / "out.npz").exists()


@pytest.mark.parametrize("command", ["apply params.json - -o link.csv", "fit - -o a.csv"])
def test_standard_input_is_not_written_over(params, command):
    source = params / "a.csv"
    source.write_text("confidence,hit\n" + "0.5,0\n0.75,1\n" * 20)
    (params / "link.csv").hardlink_to(source)
    before = source.read_bytes()
    done = forked.run(*command.split(), cwd=params, **{"in": str(source)})
    assert done.code == 2, done
    assert "a.csv is the input itself" in done.err or "link.csv is the input itself" in done.err
    assert source.read_bytes() == before
    assert os.path.samefile(source, params / "link.csv")


@pytest.mark.parametrize("format_", ["table", "markdown", "json"])
def test_values_of_a_file_cannot_reach_the_terminal(run, format_):
    name, site = "evil\x1b]0;title\x07\nx.csv", f'"{EVIL}"'
    rows = [f"0.{60 + i % 40},{int(i % 3 > 0)},{site}" for i in range(300)]
    Path(name).write_text("confidence,hit,site\n" + "\n".join(rows) + "\n")
    ran = run("metrics", name, "--by", "site", "-m", "ece", "-f", format_)
    refused = run("metrics", name, "--logits", "nope", code=3)
    for text in (ran.out, ran.err, refused.out, refused.err):
        for bad in ("\x1b", "\x07", "\x9b", "\u202e"):
            assert bad not in text, text
    assert "red" in ran.out
    assert len((ran.err + refused.err).splitlines()) <= 4, ran.err + refused.err
    if format_ == "markdown":
        lines = [line for line in ran.out.splitlines() if line.startswith("|")]
        assert len({line.replace("\\|", "").count("|") for line in lines}) == 1, lines
    if format_ == "json":
        assert json.loads(ran.out)["results"][0]["group"] == EVIL


def test_the_method_of_a_parameter_file_cannot_reach_the_terminal(run, params):
    document = json.loads((params / "params.json").read_text())
    (params / "params.json").write_text(json.dumps({**document, "method": EVIL}))
    ran = run("apply", "params.json", CSV, "-o", "out.csv", code=3)
    assert "\x1b" not in ran.err
    assert len(ran.err.splitlines()) <= 2


@pytest.mark.parametrize("option", ["--schemes", "--format", "--binning", "--fail-above", "-m", "--nope"])
def test_values_of_options_cannot_reach_the_terminal(run, option):
    ran = run("metrics", TEST, option, EVIL, code=2)
    assert "\x1b" not in ran.err
    assert len(ran.err.splitlines()) <= 2


@pytest.mark.parametrize("format_", ["json", "jsonl"])
def test_names_in_json_cannot_reach_the_terminal(run, format_):
    name = os.fsdecode("a\x9b1m\u202e.csv".encode() + b"\xff")
    os.symlink(os.path.abspath(CSV), name)
    out = run("metrics", name, "-m", "ece", "-f", format_, "--input-format", "csv").out
    assert out.isascii()
    found = json.loads(out)
    assert (found if format_ == "jsonl" else found["results"][0])["input"] == name


def test_escapes_say_what_was_there():
    assert printable("a\x1b[1m\n\t\x7f\x9b\u202e\udcff é→🎉") == r"a\x1b[1m\n\t\x7f\x9b\u202e\xff é→🎉"
    assert markdown("a|b`c`<b>[x](y)*") == r"a\|b\`c\`\<b>\[x\](y)\*"


# Signals

EARLY = """
import os, signal, sys
class Send:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, Send())
sys.argv = ["bpmcli", "metrics", {file!r}]
from bpmcli.cli import entry
entry()
"""
IMPORTED = ["typer", "bpmcli.cli.cmd_metrics", "numpy", "bpmcli.io.readers", "bpmcli.core.metrics.registry"]


@pytest.mark.parametrize("name", IMPORTED)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_any_import_ends_the_program(tmp_path, name, number, code):
    env = untraced()
    env.pop("BPMCLI_DEBUG", None)
    text = EARLY.format(name=name, number=int(number), file=str(TEST))
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, env=env, cwd=tmp_path, check=False)
    assert ran.returncode == code, ran
    assert ran.stderr in (b"bpmcli: interrupted\n", b"bpmcli: terminated\n")
    assert ran.stdout == b""


AT_THE_EDGE = """
import os
from bpmcli.cli import entry, program, streams
before = streams.{moment}
def {moment}(*arguments):
    os.kill(os.getpid(), {number})
    return before(*arguments)
streams.{moment} = {moment}
import sys
sys.argv = ["bpmcli", "--version"]
entry()
"""


@pytest.mark.parametrize("moment", ["prepare", "restore"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_just_before_or_after_the_command_is_no_traceback(tmp_path, moment, number, code):
    env = untraced()
    env.pop("BPMCLI_DEBUG", None)
    text = AT_THE_EDGE.format(moment=moment, number=int(number))
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, env=env, cwd=tmp_path, check=False)
    assert ran.returncode == code, ran
    assert ran.stderr in (b"bpmcli: interrupted\n", b"bpmcli: terminated\n")


ENDLESS = {
    "compare": ["compare", "metrics", "--truth", "D1", "-n", "2000", "--runs", "100000"],
    "noise": ["metrics", str(TEST), "--noise-floor", "--noise-runs", "100000"],
    "intervals": ["metrics", str(TEST), "-m", "all", "--interval", "0.95", "--resamples", "1000000"],
    "calibrators": ["compare", "calibrators", str(TEST), "--repeats", "1000"],
    "fifo": ["metrics", "fifo.csv"],
    "simulate": ["simulate", "D1", "-n", "10000000", "-o", "d1.csv"],
}


SIGNALS = [(name, signal.SIGINT, 130) for name in ENDLESS] + [(name, signal.SIGTERM, 143) for name in ("fifo", "noise")]


@pytest.mark.parametrize(("name", "number", "code"), SIGNALS)
def test_a_signal_ends_every_command(tmp_path, name, number, code):
    os.mkfifo(tmp_path / "fifo.csv")
    env = untraced()
    env.pop("BPMCLI_DEBUG", None)
    command = forked.start(*ENDLESS[name], cwd=tmp_path, environment=env)
    until_busy(command.pid, started=True)
    assert command.poll() is None, command.done
    earlier = processor_time(command.pid)
    command.send(number)
    done = command.end()
    assert done.code == code, done
    seconds = done.processor - earlier
    assert seconds < 1, f"it took {seconds:.1f} s of processor time to end"
    assert [line for line in done.err.splitlines() if not line.startswith(("note:", "  hint:"))] in (
        ["bpmcli: interrupted"],
        ["bpmcli: terminated"],
    )
    assert sorted(os.listdir(tmp_path)) == ["fifo.csv"], "nothing is left behind"


def test_a_result_does_not_wait_for_a_later_stream(tmp_path):
    """The stream is filled only after the first line has come, so a command that reads it first would wait forever."""
    os.mkfifo(tmp_path / "fifo.csv")
    argv = [sys.executable, "-m", "bpmcli", "metrics", str(CSV), "fifo.csv", "-m", "ece", "-f", "jsonl"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=tmp_path, env=untraced()) as process:
        impatient = threading.Timer(PATIENCE, process.kill)
        impatient.start()
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first, "it waited for the stream"
        (tmp_path / "fifo.csv").write_bytes(CSV.read_bytes())
        second = process.stdout.readline()
        assert process.wait() == 0
        impatient.cancel()
    one, two = json.loads(first), json.loads(second)
    assert (one["input"], two["input"]) == (str(CSV), "fifo.csv")
    assert one["metrics"] == two["metrics"]


STUCK = """
import hashlib, sys
from bpmcli.cli import guard, program
from bpmcli.io import writers
guard.PATIENCE = 0.1
def main(argv=None):
    with writers.atomic_path("out.csv"):
        while True:
            try:
                print("begun", flush=True)
                hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000_000)  # no step of Python for minutes
            except KeyboardInterrupt:  # swallowed, as some libraries do
                pass
program.main = main
sys.exit(program.run_as_process())
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_call_into_a_library(tmp_path, number, code):
    env = untraced()
    argv = [sys.executable, "-c", STUCK]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=env)
    assert process.stdout
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(number)
    process.communicate(timeout=PATIENCE)  # a second, and more on a busy machine; without the thread it would be longer
    assert process.returncode == code
    assert os.listdir(tmp_path) == []


# Warnings and exceptions of libraries


def test_an_interrupt_that_a_callback_swallows_ends_the_program_with_a_message(tmp_path):
    text = (
        "import sys, bpmcli.cli.program as program\n"
        "def run(argv=None):\n"
        "    class Bad:\n"
        "        def __del__(self): raise KeyboardInterrupt\n"
        "    Bad()\n"
        "    return 0\n"
        "program.main = run\n"
        "sys.exit(program.run_as_process())\n"
    )
    env = {k: v for k, v in os.environ.items() if k != "BPMCLI_DEBUG"} | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, env=env, cwd=tmp_path, check=False)
    assert (ran.returncode, ran.stderr) == (130, b"bpmcli: interrupted\n")


def test_warnings_of_libraries_stay_silent_here_and_in_workers(tmp_path):
    text = (
        "import sys, warnings, bpmcli.cli.program as program\n"
        "def run(argv=None):\n"
        "    warnings.warn('from a library', RuntimeWarning)\n"
        "    class Bad:\n"
        "        def __del__(self): raise ValueError('lost')\n"
        "    Bad()\n"
        "    import subprocess\n"
        "    child = 'import warnings; warnings.warn(\"from a worker\", RuntimeWarning)'\n"
        "    return subprocess.run([sys.executable, '-c', child]).returncode\n"
        "program.main = run\n"
        "sys.exit(program.run_as_process())\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    env.pop("BPMCLI_DEBUG", None)
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, env=env, cwd=tmp_path, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")


# Gates


def test_a_gate_is_shown_when_an_input_cannot_be_read(run):
    ran = run("metrics", TEST, "nope.npz", "--fail-above", "ece=0.0001", code=3)
    assert f"gate failed: {TEST}: ece = " in ran.err
    assert "gate failed: nope.npz: ece could not be measured, so its gate fails" in ran.err
    ran = run("metrics", "nope.npz", "--fail-above", "ece=0.5", code=3)
    assert "gate failed: nope.npz" in ran.err
    ran = run("metrics", TEST, "nope.npz", "--fail-above", "ece=0.5", "-f", "json", code=3)
    assert [gate["passed"] for gate in json.loads(ran.out)["gates"]] == [True, False]


COPIED = """
import signal, sys
from bpmcli.io import opening
opening.grant = lambda path: signal.raise_signal({number})  # called as soon as standard input has been copied
sys.argv = ["bpmcli", "metrics", "-"]
from bpmcli.cli import entry
entry()
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_no_copy_of_standard_input(tmp_path, number, code):
    env = {**untraced(), "TMPDIR": str(tmp_path)}
    env.pop("BPMCLI_DEBUG", None)
    argv = [sys.executable, "-c", COPIED.format(number=int(number))]
    ran = subprocess.run(argv, input=CSV.read_bytes(), capture_output=True, env=env, check=False)
    assert ran.returncode == code, ran
    assert os.listdir(tmp_path) == []
