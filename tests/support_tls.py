"""Certificates of machines that are only here."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def certificate(folder: Path, name: str = "server", *, passphrase: str = "") -> tuple[Path, Path]:
    """Return a self-signed certificate of 127.0.0.1 and its key, made by ``openssl``."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here")
    cert, key = folder / f"{name}.crt", folder / f"{name}.key"
    hidden = ["-passout", f"pass:{passphrase}"] if passphrase else ["-nodes"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
         "-out", str(cert), "-keyout", str(key), *hidden],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    return cert, key
