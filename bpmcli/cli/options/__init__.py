"""Every option of every command, each declared exactly once, in groups that check themselves.

A group is a record of annotated fields with a `heading` for --help and one `resolve()`. A command asks for a group
in its signature, or for a part of it:

    def simulate(..., *, details: Annotated[Details, only("p")], output: Output) -> int
"""
