"""The logs of the agent's machine: fetched when something failed, and kept with the attempt.

They come as a base64 text of a gzipped tar. Kept is the end of each file as
text, so that secrets in it can be masked; an archive would hide them.
"""

from __future__ import annotations

import base64
import io
import logging
import tarfile
import zlib
from typing import Any

from deploysteps import exceptions, protocols
from deploysteps.conf import CONF
from deploysteps.drivers.agent import share
from deploysteps.drivers.agent.client import AgentClient

LOG = logging.getLogger(__name__)

EVIDENCE = "agent_logs"
_MOST_FILES = 200
_MOST_UNPACKED = 16 * 2**20
"""Bytes that an archive may unpack to; the rest of it is not looked at."""
_ROOM_WAIT = 2.0
"""Seconds to wait for a place in which the agent may be slow."""
_GZIP = 16 + zlib.MAX_WBITS


def collect(task: protocols.Task, *, failed: bool) -> None:
    """Keep the machine's logs with the current attempt, where the configuration says so.

    Nothing that goes wrong here is a failure of the step.

    :param failed: something has failed; else it is a good end.
    """
    wanted = CONF.agent.deploy_logs_collect
    if wanted == "never" or (wanted == "on_failure" and not failed):
        return
    try:
        with share.room(task.node, wait=_ROOM_WAIT):
            found = AgentClient.of(task.node).logs()
        kept: Any = unpacked(found)
    except exceptions.DeployStepsException as exc:
        LOG.info("Node %s: no logs of its agent: %s", task.node.uuid, type(exc).__name__)
        kept = {"error": str(exc)}
    task.keep_evidence(EVIDENCE, kept)


def unpacked(result: Any) -> dict[str, str]:
    """Return name -> end of each file that the agent collected, within the limit for all.

    :raises DriverOperationError: it is no archive.
    """
    text = result.get("system_logs") if isinstance(result, dict) else None
    if not isinstance(text, str):
        raise exceptions.DriverOperationError("the agent sent no logs")
    try:
        files = _files(base64.b64decode(text, validate=False))
    # Whatever it is: of a header that lies tarfile raises IndexError, RecursionError and more.
    except Exception as exc:
        raise exceptions.DriverOperationError(
            f"the logs that the agent sent cannot be unpacked: {type(exc).__name__}"
        ) from None
    limit = CONF.agent.deploy_logs_kept_kilobytes * 1024
    return _ends(files, limit)


def _files(raw: bytes) -> dict[str, bytes]:
    limit = CONF.agent.deploy_logs_kept_kilobytes * 1024
    # Unpacked here and not by tarfile, which reads headers of any size that an archive claims.
    content = zlib.decompressobj(wbits=_GZIP).decompress(raw, _MOST_UNPACKED)
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(content), mode="r|") as archive:
        try:
            for member in archive:
                if member.size < 0 or len(found) >= _MOST_FILES:
                    break
                # The holes of a sparse file would be filled, and it says itself how large they are.
                is_plain = member.isfile() and not member.issparse()
                file = archive.extractfile(member) if is_plain else None
                if file is not None:
                    found[member.name[:255]] = file.read()[-limit:]
        except tarfile.ReadError:
            if not found:  # what stands before the cut is worth keeping
                raise
    return found


def _ends(files: dict[str, bytes], limit: int) -> dict[str, str]:
    """Share the room among the files, the small ones first: what they leave the others get."""
    kept: dict[str, str] = {}
    left = limit
    waiting = sorted(files, key=lambda name: len(files[name]))
    for place, name in enumerate(waiting):
        share = left // (len(waiting) - place)
        end = files[name][-share:] if share else b""
        left -= len(end)
        kept[name] = end.decode("utf-8", "replace")
    return kept
