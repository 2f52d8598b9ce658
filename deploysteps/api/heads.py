"""The head of a request, and the sizes of chunks, as they must be: no request hides in the bytes.

A proxy in front may take a doubtful head for something else than this server does, and what one
takes for a body is the next request for the other (RFC 9112, 6.3). Cheroot takes what is doubtful.
"""

from __future__ import annotations

import re
from typing import Any

from cheroot.server import HeaderReader

_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_CHUNK = re.compile(rb"[0-9A-Fa-f]{1,15}[ \t]*(;[^\r\n\0]*)?\r\n")
_ONCE = frozenset(
    {b"Content-Length", b"Host", b"Authorization", b"X-Auth-Token", b"X-Service-Token"}
)


class Headers(dict[bytes, Any]):
    """Headers of a request by their names; the doubtful ones are refused."""

    def __setitem__(self, name: bytes, value: Any) -> None:
        """Take a header, or what goes on with one.

        :raises ValueError: it may stand once only, or is no number.
        """
        if name in _ONCE and name in self:
            raise ValueError(f"The header {name.decode('ascii', 'replace')} stands twice.")
        if name == b"Content-Length" and not _LENGTH.fullmatch(value):
            raise ValueError("The header Content-Length has to be a number.")
        super().__setitem__(name, value)


class _Lines:
    """The lines of a head."""

    def __init__(self, rfile: Any) -> None:
        self._rfile = rfile

    def readline(self) -> bytes:
        """Return the next line.

        :raises ValueError: it goes on with the one before, or not all take its end for the same.
        """
        line: bytes = self._rfile.readline()
        if line[:1] in (b" ", b"\t"):
            raise ValueError("A header must not go on in the next line.")
        if b"\r" in line[:-2] or b"\0" in line:
            raise ValueError("A header has a character that is not allowed.")
        return line


class ChunkSizes:
    """A body in chunks, whose sizes are what all take for the same number."""

    def __init__(self, rfile: Any) -> None:
        """Read from the connection."""
        self._rfile = rfile
        self.read = rfile.read

    def readline(self) -> bytes:
        """Return the line that says how large the next chunk is.

        :raises ValueError: it is not written as RFC 9112, 7.1 has it; Python takes more.
        """
        line: bytes = self._rfile.readline()
        if not _CHUNK.fullmatch(line):
            raise ValueError("The size of a chunk is no hexadecimal number.")
        return line


class Reader(HeaderReader):
    """Cheroot's, which would cut spaces off a header's name, and join lines."""

    def __call__(self, rfile: Any, hdict: Any = None) -> Any:
        """Read the headers of a request.

        :raises ValueError: they are doubtful.
        """
        return super().__call__(_Lines(rfile), hdict)

    def _allow_header(self, key_name: bytes) -> bool:
        # For WSGI it would be the one with "-" that a proxy sets, and be taken for it.
        return b"_" not in key_name

    def _transform_key(self, key_name: bytes) -> bytes:
        if not _NAME.fullmatch(key_name):
            raise ValueError("A header's name has a character that is not allowed.")
        return key_name.title()


def doubt(headers: Headers, protocol: bytes) -> str | None:
    """Return what is wrong with how a request says where it ends; None: nothing.

    :param protocol: as its first line has it.
    """
    is_1_1 = protocol == b"HTTP/1.1"
    if is_1_1 and b"Host" not in headers:
        return "The header Host is missing."
    coding = headers.get(b"Transfer-Encoding")
    if coding is None:
        return None
    if not is_1_1:  # cheroot would read no body, and a proxy sends one
        return "The header Transfer-Encoding needs HTTP/1.1."
    if coding.lower() != b"chunked":
        return "The header Transfer-Encoding has to be: chunked."
    if b"Content-Length" in headers:
        return "The headers Transfer-Encoding and Content-Length exclude each other."
    return None


def is_whole(begin: bytes) -> bool:
    """Tell whether the head of a request has ended, as its client may have meant to end it."""
    return b"\r\n\r\n" in begin or b"\n\n" in begin or b"\n\r\n" in begin
