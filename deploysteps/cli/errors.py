"""What can go wrong on the command line: one line of words and an exit code."""

from __future__ import annotations

import enum
import re


class ExitCode(enum.IntEnum):
    """Exit codes; scripts rely on them."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    UNREACHABLE = 5
    CONFIGURATION = 6
    INTERRUPTED = 130


MEANINGS: dict[ExitCode, str] = {
    ExitCode.OK: "done",
    ExitCode.FAILED: "the operation failed, or the service did",
    ExitCode.USAGE: "wrong usage, or the service refused the request as wrong",
    ExitCode.NOT_FOUND: "there is no such thing",
    ExitCode.CONFLICT: "busy, in conflict or still going on: try again later",
    ExitCode.UNREACHABLE: "the service or the database cannot be reached",
    ExitCode.CONFIGURATION: "the configuration or the database schema is not usable",
    ExitCode.INTERRUPTED: "interrupted",
}

_BY_STATUS = {
    404: ExitCode.NOT_FOUND,
    409: ExitCode.CONFLICT,
    503: ExitCode.CONFLICT,
}


_READS = re.compile(r"GET /v1/nodes/([^\s/]+)/(steps|runs)(?:\?flow=(\w+))?\b")


def in_commands(text: str) -> str:
    """Return the service's words with the command in place of the request to make."""

    def command(found: re.Match[str]) -> str:
        node = "NODE" if found[1] == "<node>" else found[1]
        flow = f" --flow {found[3]}" if found[3] else ""
        return f"`deploysteps node {found[2]} {node}{flow}`"

    return _READS.sub(command, text)


def code_of_status(status: int) -> ExitCode:
    """Return the exit code for an HTTP status that is an error."""
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return ExitCode.USAGE if 400 <= status < 500 else ExitCode.FAILED


class CommandError(Exception):
    """A command ends here: a line for stderr, and the exit code."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        """Keep both."""
        super().__init__(message)
        self.message = message
        self.code = code
