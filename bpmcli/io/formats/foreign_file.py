"""Files of other programs that bpmcli does not read, each with the line that converts it."""

from __future__ import annotations

import json
import shlex
from typing import ClassVar

from bpmcli.errors import DataError
from bpmcli.io.formats import reads, suffix_of
from bpmcli.io.formats.free_name import free_name
from bpmcli.io.formats.reader import Reader

EXCEL, RDS, RDATA = "an Excel file", "an R file (.rds)", "an R file (.RData)"
STATA, SPSS, SAS = "a Stata file", "an SPSS file", "a SAS file"
KINDS = {
    ".xlsx": EXCEL, ".xls": EXCEL, ".xlsm": EXCEL, ".rds": RDS, ".rdata": RDATA, ".rda": RDATA,
    ".dta": STATA, ".sav": SPSS, ".sas7bdat": SAS,
}  # fmt: skip
PANDAS = {EXCEL: "read_excel", STATA: "read_stata", SPSS: "read_spss", SAS: "read_sas"}
R = {
    RDS: "write.csv(readRDS({path}), {out}, row.names = FALSE)",
    RDATA: "write.csv(get(load({path})), {out}, row.names = FALSE)",
}


@reads("foreign", *KINDS)
class ForeignReader(Reader):
    """Reads nothing: other tools convert these files."""

    refused: ClassVar[bool] = True
    in_folders: ClassVar[bool] = False
    containers: ClassVar[tuple[bytes, ...]] = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"\x1f\x8b", b"BZh", b"\xfd7zXZ")

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        return False  # recognised by its suffix only

    def inspect(self) -> None:
        kind, out = KINDS[suffix_of(self.path)], free_name(self.path, ".csv")
        if kind in R:
            line = f"Rscript -e {shlex.quote(R[kind].format(path=json.dumps(self.path), out=json.dumps(out)))}"
        else:
            code = f"import pandas; pandas.{PANDAS[kind]}({self.path!r}).to_csv({out!r}, index=False)"
            line = f"python -c {shlex.quote(code)}"
        raise DataError(f"is {kind}, which bpmcli does not read", f"convert it: {line}")
