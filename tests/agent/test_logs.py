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


def sparse(size, *, goes_on=False):
    """Return the header of a sparse file that is one hole."""
    info = tarfile.TarInfo("journal")
    info.type = tarfile.GNUTYPE_SPARSE
    found = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    found[386:398] = tarfile.itn(size, 12, tarfile.GNU_FORMAT)
    found[482] = goes_on
    found[483:495] = tarfile.itn(size, 12, tarfile.GNU_FORMAT)
    found[148:156] = b" " * 8
    found[148:155] = b"%06o\0" % sum(found)
    return bytes(found)


MEGABYTE = bytes(2**20)
BOMBS = {
    "a header of any size": [header("p", 400 * 2**20, tarfile.XHDTYPE), *[MEGABYTE] * 400],
    "a name of any length": [header("p", 400 * 2**20, tarfile.GNUTYPE_LONGNAME), *[MEGABYTE] * 400],
    "a size below zero": [
        header("d", -(2**40), tarfile.DIRTYPE),
        header("f", 400 * 2**20),
        *[MEGABYTE] * 400,
    ],
    "a hole": [sparse(2**29)],
    "holes": [sparse(2**25)] * 200,
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


def test_a_sparse_file_is_left_out_and_the_others_are_kept():
    found = logs.unpacked(
        collected(sparse(2**20), header("messages", 7), b"a line\n".ljust(512, b"\0"))
    )
    assert found == {"messages": "a line\n"}


LONG_NAME = header("p", 5, tarfile.GNUTYPE_LONGNAME) + b"name\0".ljust(512, b"\0")


@pytest.mark.parametrize(
    "parts", [[sparse(100, goes_on=True)], [LONG_NAME] * 3000, [b"\1" * 512], []]
)
def test_an_archive_that_is_none_is_told_whatever_is_wrong_with_it(parts):
    """It says why a step failed, and is never the reason itself (F79)."""
    with pytest.raises(exceptions.DriverOperationError, match="cannot be unpacked: [A-Z]"):
        logs.unpacked(collected(*parts))
