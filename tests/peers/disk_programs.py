"""Stand-ins for the programs by which the agent looks at a disk.

usage: python disk_programs.py PROGRAM ARGUMENT…

They answer what the real ones do about a disk with an MBR, in the few forms in which
ironic-python-agent asks. A machine may lack ``parted`` and ``partprobe``; ``lsblk`` knows labels
only where udev runs, and nothing of a disk that is a regular file.
"""

import glob
import os
import struct
import subprocess
import sys

_MIB = 2**20
_SECTOR = 512


def _disk(arguments: list[str]) -> str:
    return next(argument for argument in arguments if argument.startswith("/"))


def _partitions(path: str) -> list[tuple[int, float, float]]:
    """Return number, first and last MiB of each entry of the MBR."""
    with open(path, "rb") as disk:
        record = disk.read(_SECTOR)
    if record[510:] != b"\x55\xaa":
        sys.exit(f"Error: {path}: unrecognised disk label")
    found = []
    for number in range(4):
        kind, first, count = struct.unpack_from("<4xB3xII", record, 446 + 16 * number)
        if kind:
            begin, size = first * _SECTOR / _MIB, count * _SECTOR / _MIB
            found.append((number + 1, begin, begin + size))
    return found


def parted(arguments: list[str]) -> None:
    path = _disk(arguments)
    found = _partitions(path)
    if "-m" not in arguments:
        print(f"Disk {path}: \nPartition Table: msdos")
        return
    print(f"BYT;\n{path}:1.00MiB:loopback:512:512:msdos:Loopback device:;")
    for number, first, last in found:
        print(f"{number}:{first:.2f}MiB:{last:.2f}MiB:{last - first:.2f}MiB:::;")


def partprobe(arguments: list[str]) -> None:
    path = _disk(arguments)
    if not os.path.isfile(path):
        subprocess.run(["partx", "--update", path], check=True)


def lsblk(arguments: list[str]) -> None:
    path = _disk(arguments)
    if "name,label" not in arguments:
        print('UUID="" PARTUUID=""')
        return
    for each in (path, *sorted(glob.glob(f"{path}p*"))):
        asked = ["blkid", "-o", "value", "-s", "LABEL", each]
        label = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
        print(f'NAME="{os.path.basename(each)}" LABEL="{label}"')


if __name__ == "__main__":
    {"parted": parted, "partprobe": partprobe, "lsblk": lsblk}[sys.argv[1]](sys.argv[2:])
