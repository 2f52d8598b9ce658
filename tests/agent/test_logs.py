"""The archive of logs comes from a machine that may be hostile."""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import resource
import tarfile

import pytest

from deploysteps import exceptions
from deploysteps.drivers.agent import logs


def header(name, size, kind=tarfile.REGTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def collected(*parts):
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1) as file:
        for part in parts:
            file.write(part)
    return {"system_logs": base64.b64encode(packed.getvalue()).decode()}


MEGABYTE = bytes(2**20)
BOMBS = {
    "a header of any size": [header("p", 400 * 2**20, tarfile.XHDTYPE), *[MEGABYTE] * 400],
    "a name of any length": [header("p", 400 * 2**20, tarfile.GNUTYPE_LONGNAME), *[MEGABYTE] * 400],
    "a size below zero": [
        header("d", -(2**40), tarfile.DIRTYPE),
        header("f", 400 * 2**20),
        *[MEGABYTE] * 400,
    ],
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_an_archive_unpacks_to_bounded_memory(bomb):
    result = collected(*BOMBS[bomb])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Refused as a whole; else what could be read.
    with contextlib.suppress(exceptions.DriverOperationError):
        logs.unpacked(result)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 128 * 1024, "kilobytes"


def test_what_stands_before_a_cut_is_kept():
    good = b"a line\n".ljust(512, b"\0")
    found = logs.unpacked(collected(header("messages", 7), good, header("long", 2**20), b"cut"))
    assert found["messages"] == "a line\n"
