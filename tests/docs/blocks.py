"""The code blocks of reStructuredText pages, and what comments before them say to the tests.

A comment ``.. test: …`` directly before a block says how it is tried; without one
the block is tried in the way of its language (see ``test_examples``):

``.. test: exit 1``
    Its last command ends with this exit code.
``.. test: background``
    It goes on while the following blocks are tried, as in another terminal.
``.. test: peers``
    It needs the real clients: ``make peers`` tries it.
``.. test: not run: REASON``
    It cannot be tried here.

A comment ``.. test-console``, ``test-python`` or ``test-ini`` *is* a block that readers do not see.
"""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Iterator

_BLOCK = re.compile(
    r"^(?P<indent> *)\.\. (?:code-block:: (?P<language>\w+)|test-(?P<hidden>console|python|ini))\n"
    r"(?P<options>(?:(?P=indent) +:[\w-]+:.*\n)*)"
    r"(?:\n|(?=(?P=indent) ))(?P<code>(?:(?P=indent) +.*\n|\n)+)",
    re.M,
)
_COMMENT = re.compile(r"^ *\.\. test: (?P<first>.*)\n(?P<more>(?: +.*\n)*)\n*\Z", re.M)
_LITERAL = re.compile(r"^(?! *\.\. ).*[^:\s]::$|^::$", re.M)


@dataclasses.dataclass(frozen=True)
class Block:
    """One block of a page."""

    language: str
    code: str
    line: int
    """Of the page, counted from 1, where the code begins."""
    name: str | None = None
    how: str = ""
    """What the comment before it says."""
    hidden: bool = False


def of_text(text: str) -> Iterator[Block]:
    """Yield the blocks of a page, in their order."""
    for found in _BLOCK.finditer(text):
        before = _COMMENT.search(text[: found.start()])
        how = " ".join(f"{before['first']} {before['more']}".split()) if before else ""
        named = re.search(r":name: (\S+)", found["options"])
        code = found["code"].strip("\n") + "\n"
        blank = len(found["code"]) - len(found["code"].lstrip("\n"))
        yield Block(
            language=found["language"] or found["hidden"],
            code=textwrap.dedent(code),
            line=text[: found.start("code")].count("\n") + 1 + blank,
            name=named[1] if named else None,
            how=how,
            hidden=found["hidden"] is not None,
        )


def named(text: str, name: str) -> str:
    """Return the code of the block of this name."""
    return next(block.code for block in of_text(text) if block.name == name)


def literals(text: str) -> list[str]:
    """Return the lines that begin a literal block without a language: nothing tries those."""
    return [found[0] for found in _LITERAL.finditer(text)]


@dataclasses.dataclass(frozen=True)
class Command:
    """One command of a console block, and what it is to print."""

    text: str
    output: str
    line: int


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a console block: lines after ``$``, and what they print below."""
    text, output, first = "", "", 0
    for number, line in enumerate(block.code.splitlines()):
        if line.startswith("$ "):
            if text:
                yield Command(text, output, block.line + first)
            text, output, first = line[2:], "", number
        elif line.startswith("> ") and not output:
            text += "\n" + line[2:]
        else:
            assert text, f"line {block.line + number}: no command before this"
            output += line + "\n"
    if text:
        yield Command(text, output.rstrip("\n") and output, block.line + first)
