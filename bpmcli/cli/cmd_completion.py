"""bpmcli completion: prints a script with which a shell completes command lines of bpmcli."""

from __future__ import annotations

from typing import Annotated

import typer

from bpmcli.cli.options.command import command_app
from bpmcli.errors import UsageError

SHELLS = ("bash", "zsh", "fish")


def completion(shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]) -> int:
    """Print a script that completes commands, options, names, files and columns.

    \b
      bpmcli completion bash > ~/.local/share/bash-completion/completions/bpmcli
      bpmcli completion zsh > ~/.zfunc/_bpmcli
      bpmcli completion fish > ~/.config/fish/completions/bpmcli.fish
    """
    from bpmcli.cli.completion import script

    if shell not in SHELLS:
        raise UsageError(f"no completion for '{shell}'", f"choose from {', '.join(SHELLS)}")
    print(script(shell), end="")
    return 0


app = command_app(completion)
