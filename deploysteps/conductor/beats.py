"""What a machine's agent sends: lookups and heartbeats, and the token they share.

A heartbeat is recorded in the request's own thread. It names the attempt that
was waiting when it came, before any lock: that one or none is completed.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import secrets as random_source
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from deploysteps import exceptions, states
from deploysteps.conductor import attend
from deploysteps.conductor.attend import Beat
from deploysteps.conductor.runtime import Runtime
from deploysteps.conductor.task_manager import TaskManager
from deploysteps.conductor.workers import Slot
from deploysteps.db import beats as rows
from deploysteps.db import locks, nodes, runs, transitions, types
from deploysteps.db.models import Node, StepAttempt
from deploysteps.secrets import MASK
from deploysteps.steps import NO_DRIVERS_TO_END

LOG = logging.getLogger(__name__)

PURPOSE = "heartbeat"
_MOST_TOLD = 10_000
"""Waits of which it is remembered that a refused heartbeat was told."""


def lookup(runtime: Runtime, addresses: Sequence[str], node_uuid: str | None) -> tuple[Node, str]:
    """Return the node an agent runs on, and its token: once for each boot.

    :returns: the node and the token, or ``******`` when it was given before.
    :raises NotFound: no such node, or it expects no agent: the same text.
    :raises NodeLocked: an operation holds it; the agent asks again.
    """
    node = _looked_up(runtime, addresses, node_uuid)
    if node is None or node.provision_state not in states.AGENT_STATES:
        _tell_why(node, addresses, node_uuid)
        raise exceptions.NotFound("Could not find the requested node, or it expects no agent now.")
    if node.agent_secret_token:
        _refuse_locked(node)
        return node, MASK
    token = random_source.token_urlsafe(32)
    rows.give_token(runtime.database, node, token)
    node.set_driver_internal_info("agent_secret_token", token)
    return node, token


def _tell_why(node: Node | None, addresses: Sequence[str], uuid: str | None) -> None:
    """Tell operators which of the cases a lookup without an answer is; the agent is not told."""
    if node is not None:
        LOG.info(
            "A lookup found node %s, which is in state %s and expects no agent",
            node.uuid,
            node.provision_state or states.AVAILABLE,
        )
    elif uuid:
        LOG.info("A lookup asked for node %s, which is not there", uuid)
    else:
        LOG.info("A lookup came for which no one node has a port: %s", ", ".join(addresses[:10]))


def _looked_up(runtime: Runtime, addresses: Sequence[str], uuid: str | None) -> Node | None:
    if uuid:
        try:
            return nodes.get(runtime.database, uuid)
        except exceptions.NodeNotFound:
            return None
    found = nodes.of_addresses(runtime.database, addresses)
    if len(found) > 1:
        LOG.warning(
            "A lookup names ports of several nodes: %s", ", ".join(node.uuid for node in found)
        )
    return found[0] if len(found) == 1 else None


def _refuse_locked(node: Node | rows.Seen) -> None:
    if node.reservation is not None:
        raise exceptions.NodeLocked(node=node.uuid, host=node.reservation)


def heartbeat(runtime: Runtime, node_id: str, token: str | None, beat: Beat) -> None:
    """Record a heartbeat and let the step that waited for it go on.

    :raises InvalidParameterValue: a wrong token or callback URL.
    :raises NodeLocked: it was not recorded; the agent sends it again.
    """
    # Read before the lock: a beat completes the step that waited when it came.
    node, attempt = rows.see_waiting(runtime.database, node_id)
    try:
        _check_token(node, token)
        _check_callback(runtime, node, beat.callback_url)
        beat = _with_certificate(node, beat)
    except exceptions.InvalidParameterValue as exc:
        _tell_refused(runtime, node, attempt, str(exc))
        raise
    _refuse_locked(node)
    if attempt is not None and not _is_for(runtime, node, attempt):
        attempt = None
    _record(runtime, node, beat, attempt)


def _tell_refused(runtime: Runtime, node: rows.Seen, attempt: StepAttempt | None, why: str) -> None:
    """Put into the history that an agent calls and is not heard, once for each wait for one.

    Whoever reaches the API can send such heartbeats, so more of them are not told of.
    """
    if attempt is None or attempt.state != runs.WAITING or attempt.owner != "agent":
        return
    key, told = transitions.key_of(attempt), runtime.beats_refused
    if key in told:
        return
    if len(told) >= _MOST_TOLD:
        told.clear()
    told.add(key)
    row = nodes.history_row(
        node.id,
        f"while {attempt.interface}.{attempt.step} waits for the agent, a heartbeat is refused: "
        f"{why}",
        event_type="heartbeat refused",
        severity="WARNING",
        conductor=runtime.host,
    )
    transitions.tell(runtime.database, row)


def _is_for(runtime: Runtime, node: rows.Seen, attempt: StepAttempt) -> bool:
    """Tell whether the agent ends this wait, or a driver wants to hear every beat."""
    if attempt.state != runs.WAITING:
        return False
    if attempt.owner == "agent":
        return True
    if attempt.owner in NO_DRIVERS_TO_END or attempt.conductor != runtime.host:
        return False
    driver = runtime.registry.build(nodes.get(runtime.database, node.id))
    return attend.overrides_heartbeat(driver.deploy)


def _check_token(node: rows.Seen, token: str | None) -> None:
    known = node.agent_secret_token
    if not token or not known or not hmac.compare_digest(known.encode(), token.encode()):
        raise exceptions.InvalidParameterValue(
            "Agent token is missing, invalid or no longer valid; a new boot of the agent gets one"
        )


def _check_callback(runtime: Runtime, node: rows.Seen, url: str) -> None:
    """Check a callback URL: it is pinned for each boot, and may be limited to networks."""
    pinned = node.agent_url
    if pinned and url != pinned:
        raise exceptions.InvalidParameterValue(
            "Detected change in ramdisk provided callback_url: it is pinned until the agent "
            "boots again"
        )
    if not url:
        return
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not host or not url.isprintable():
        raise exceptions.InvalidParameterValue("callback_url must be an http or https URL")
    if parts.username is not None or parts.query or parts.fragment:
        raise exceptions.InvalidParameterValue(
            "callback_url must be a plain address: without user, query and fragment"
        )
    networks = runtime.conf.agent.callback_networks
    if networks and not _inside(host, networks):
        raise exceptions.InvalidParameterValue(
            f"callback_url: {host} is not in an allowed network ([agent] callback_networks)"
        )


def _with_certificate(node: rows.Seen, beat: Beat) -> Beat:
    """Return a beat with the agent's certificate, which is pinned as its address is.

    An agent makes it when it starts. One that does not repeat it has the one it sent.
    """
    pinned, sent = node.agent_verify_ca, beat.agent_verify_ca
    if pinned and sent and sent != pinned:
        raise exceptions.InvalidParameterValue(
            "Detected change in agent_verify_ca: the agent's certificate is pinned until the "
            "agent boots again"
        )
    return beat._replace(agent_verify_ca=sent or pinned)


def _inside(host: str, networks: Sequence[Any]) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return any(address in ipaddress.ip_network(str(network)) for network in networks)


def _record(runtime: Runtime, node: rows.Seen, beat: Beat, attempt: StepAttempt | None) -> None:
    """Write the beat; if it completes a wait, take the lock in the same UPDATE.

    Without a free worker, or at another conductor, the wait is marked, and the
    sweeper of its conductor goes on with it.
    """
    values = {
        "agent_heartbeat_column": types.utcnow(),
        "agent_url_column": beat.callback_url or None,
        "agent_version_column": beat.agent_version,
        "agent_ca_column": beat.agent_verify_ca,
    }
    if attempt is None:
        rows.record(runtime.database, node, values, [])
        return
    marked = transitions.signal(
        transitions.key_of(attempt), "beat", attend.detail_of(beat), attempt.waiting_since
    )
    # A wait is its conductor's, which offers what the node needs: it is told by the mark.
    slot = _slot(runtime) if attempt.conductor == runtime.host else None
    try:
        if slot is None:
            rows.record(runtime.database, node, values, [marked])
            runtime.wake()
            return
        lock, fresh = locks.grant(
            runtime.database,
            node.id,
            runtime.host,
            PURPOSE,
            values=values,
            # The machine may have been switched off since, and the same step waits still.
            same={"agent_secret_token": node.agent_secret_token},
            also=[marked],
            active=runtime.active,
        )
        # It still waits, or marking it would have failed.
        task = TaskManager(runtime, None, fresh, lock, PURPOSE, attempt)
    except locks.Stale:  # the step that waited is done already; the beat still counts
        if slot is not None:
            slot.release()
        rows.record(runtime.database, node, values, [])
        return
    except BaseException:
        if slot is not None:
            slot.release()
        raise
    task.hand_over(slot, attend.guarded(attend.attend), transitions.key_of(attempt), beat)


def _slot(runtime: Runtime) -> Slot | None:
    try:
        return runtime.workers.reserve()
    except (exceptions.NoFreeConductorWorker, exceptions.NotStarted):
        return None
