"""Disks of the machines that are processes, and what is written onto them.

A disk is a loop device over a file, where this machine lets one be made (root, ``losetup``, a
kernel that has them): its partitions are devices, too. Elsewhere it is the file itself, which has
no partitions that can be written to.
"""

from __future__ import annotations

import base64
import glob
import gzip
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

PROGRAMS = Path(__file__).with_name("disk_programs.py")
SIZE = 24 * 2**20
_SECTOR = 512
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
SYSTEM, DRIVE = slice(2**20, 5 * 2**20), slice(8 * 2**20, 9 * 2**20)
"""Where the image's two partitions are: the system's, and one for a configuration drive."""


class Disk:
    """One disk; :meth:`close` takes its device away."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._file = folder / "disk"
        with self._file.open("wb") as disk:
            disk.truncate(SIZE)
        device = _loop_device(self._file)
        self.is_device = device is not None
        self.path = device or str(self._file)
        self._programs = folder / "programs"
        self._programs.mkdir()
        for name in ("parted", "partprobe", "lsblk"):
            _make(self._programs / name)

    @property
    def programs(self) -> str:
        """The PATH of the machine's agent: the stand-ins, and then what is real."""
        return os.pathsep.join([str(self._programs), _PATH])

    def content(self) -> bytes:
        """Return the bytes of the disk, as they are behind its device."""
        for path in (self.path, *glob.glob(f"{self.path}p*")):
            with open(path, "rb") as device:
                os.fsync(device.fileno())
        return self._file.read_bytes()

    def close(self) -> None:
        if self.is_device:
            for command in (["partx", "--delete"], ["losetup", "--detach"]):
                subprocess.run([*command, self.path], check=True, env={"PATH": _PATH})


def _loop_device(file: Path) -> str | None:
    program = shutil.which("losetup", path=_PATH)
    if os.geteuid() != 0 or program is None:
        return None
    command = [program, "--find", "--show", str(file)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    return made.stdout.strip() if made.returncode == 0 else None


def _make(program: Path) -> None:
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {PROGRAMS} {program.name} "$@"\n')
    program.chmod(0o755)


def image(drive: bytes = b"") -> bytes:
    """Return a whole-disk image: an MBR, a partition of noise, and one that holds ``drive``."""
    found = bytearray(12 * 2**20)
    for place, part in enumerate((SYSTEM, DRIVE)):
        where = part.start // _SECTOR, (part.stop - part.start) // _SECTOR
        struct.pack_into("<4xB3xII", found, 446 + 16 * place, 0x83, *where)
    found[440:444], found[510:512] = b"disk", b"\x55\xaa"
    found[SYSTEM] = os.urandom(SYSTEM.stop - SYSTEM.start)
    found[DRIVE.start : DRIVE.start + len(drive)] = drive
    return bytes(found)


def filesystem(folder: Path, label: str, **files: str) -> bytes:
    """Return a file system with a label, as large as the partition for it."""
    content, made = folder / f"{label}-content", folder / f"{label}.img"
    shutil.rmtree(content, ignore_errors=True)
    content.mkdir()
    for name, text in files.items():
        (content / name).write_text(text)
    kilobytes = (DRIVE.stop - DRIVE.start) // 1024
    command = ["mke2fs", "-q", "-F", "-t", "ext2", "-L", label, "-d", str(content), str(made)]
    subprocess.run([*command, f"{kilobytes}k"], check=True, env={"PATH": _PATH})
    return made.read_bytes()


def as_configdrive(content: bytes) -> str:
    """Return a configuration drive as requests carry it."""
    return base64.b64encode(gzip.compress(content)).decode()
