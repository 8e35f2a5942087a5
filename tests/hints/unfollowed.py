"""Hints that no test follows, each with the reason, and how many places of the source have it."""

from __future__ import annotations

INSTALLS = "installs a package"
ELSEWHERE = "is about another program"
DAMAGE = "follows a damaged baseline; saving a baseline again is followed in another row"
PIECES = "needs a parquet file that is read in several pieces, all of whose weights are zero; followed for a whole file"
PYTHON = "the command line refuses it earlier, so only Python reaches it"
SHELL = "is a command of the shell, for the commands after it"
RESOURCES = "needs a machine that runs out of memory"

UNFOLLOWED: dict[str, tuple[int, str]] = {
    "pip install distributed": (1, INSTALLS),
    "pip install h5py": (1, INSTALLS),
    "pip install fsspec …": (1, INSTALLS),
    "pip install fsspec s3fs": (1, INSTALLS),
    "pip install matplotlib": (1, INSTALLS),
    "pip install jinja2": (1, INSTALLS),
    "upgrade: pip install -U bpmcli": (1, INSTALLS),
    "install Hadoop's client, and set JAVA_HOME, HADOOP_HOME and CLASSPATH (hadoop classpath --glob)": (1, INSTALLS),
    "give credentials as the store expects them, for S3 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY": (1, ELSEWHERE),
    "it was written without them: run inspect eval with --log-samples": (1, ELSEWHERE),
    "this is a bug; BPMCLI_DEBUG=1 shows where": (1, "follows a bug, and there is none that is known"),
    "raise the limit: ulimit -n 4096": (1, SHELL),
    "raise the limit: ulimit -n …": (1, SHELL),
    "perhaps memory ran out: use a smaller -j": (1, RESOURCES),
    "use a smaller -j": (1, RESOURCES),
    "write it to a file, or leave --engine out": (1, "needs a dask cluster and a pipe"),
    "try other bin counts with --bins LO:HI": (1, "needs a fit that does not converge, and none is known"),
    "leave --interval out": (1, "needs rows whose resamples cannot be fitted; followed for a method of all classes"),
    "--method bpm-averaged works with any number of rows": (1, "needs rows that no method can be fitted to"),
    "choose a --method that works on confidences, such as bpm-averaged": (1, "needs a file of several GB"),
    "use --variant paper": (1, "`compare curves` shows a dash for a method that cannot be fitted, and no hint"),
    "name a file with -o": (1, "needs a closed standard output; followed for a format that cannot go there"),
    "leave it out": (1, PYTHON),
    "give a positive number with -n": (1, PYTHON),
    "bpmcli apply uses it": (1, PYTHON),
    "leave such rows out": (1, PYTHON),
    "summarise with bpmcli summarize --by COLUMN": (1, PYTHON),
    "name another column with --by": (1, PYTHON),
    "name another column with --weight": (1, PIECES),
    "save it again with --save-baseline FILE": (2, DAMAGE),
}

HANDED_ON = {
    "cli/options/checks.py",
    "io/documents.py",
    "io/formats/reader.py",
    "io/formats/record_batches.py",
    "io/layout.py",
    "io/logs/helm.py",
    "io/logs/lm_eval.py",
    "io/logs/log_reader.py",
    "io/logs/tables.py",
    "io/scores.py",
    "io/writers.py",
    "tasks/baseline_whole.py",
}
"""Files with errors whose hint comes from a caller, from another error or from an attribute that is collected itself."""
