"""python -m bpmcli"""

from bpmcli.cli import entry

entry()
