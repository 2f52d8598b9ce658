"""Both services over HTTP, as processes of their own: how long, how much, how many a second.

A *scene* is one start of a service on a copy of a prepared database. In each round every scene
is played by both services, one directly after the other, and every other round begins with
the other service. Only one of them runs at a time.

``small``
    100 nodes that are available. Seconds to the first answer, memory when idle, the lists, then
    100 deployments of one step: asked for by some clients at once, then waited for in turn.
``thousand``
    Memory with 1,000 nodes, before and after a client read them all in detail.
``large``
    The lists of 5,000 nodes: a page as it comes without ``limit``, and all pages.
``beats``
    Heartbeats of agents whose nodes are held between two steps, where a beat is recorded and
    sets nothing off, in either service. (Those that set off a step are in the other table.)
"""

from __future__ import annotations

import http.client
import shutil
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks import seeding, versus
from benchmarks.client import Client, Unanswered
from benchmarks.environments import NotAvailable
from benchmarks.services import Ironic, Ours, Service
from benchmarks.versus import Subject

SMALL, THOUSAND, LARGE = 100, 1000, 5000
DEPLOYS = 100
CLIENTS = 4
"""That ask at once, for deployments and with heartbeats."""
TOKEN = "t" * 43
POLL_SECONDS = 0.05
DEPLOY_SECONDS = 120.0
BEATING_NODES = 200
"""So many that no node's next beat comes while Ironic still records its last one."""
_WARM = 20
BEAT_SECONDS = 3.0
RECORD_SECONDS = 10.0
MOST_SECONDS = 450.0
"""No round is begun that would end later, going by the longest so far; the first always is."""
_LOOKS = 5
_SETTLE = 1.0
"""Seconds after which a service that was not asked anything counts as idle."""

_FAILURES = (
    NotAvailable,
    Unanswered,
    OSError,
    subprocess.SubprocessError,
    http.client.HTTPException,
    psutil.Error,
    sqlite3.Error,
)

LISTS, SPEED, MEMORY, START = 5.0, 10.0, 3.0, 2.0
"""What is wanted, in times as good as Ironic."""

SUBJECTS = (
    Subject("start", "start to first answer", "s", START),
    Subject("start_ready", "start to drivers offered", "s", START, counts=False),
    Subject("memory_idle", "memory, idle (PSS)", "MB", MEMORY),
    Subject("memory_idle_uss", "memory, idle (USS)", "MB", MEMORY, counts=False),
    Subject("memory_1000", "memory, 1,000 nodes, read once (PSS)", "MB", MEMORY),
    Subject("memory_1000_uss", "memory, 1,000 nodes, read once (USS)", "MB", MEMORY, counts=False),
    Subject("nodes_100", "GET /v1/nodes, 100 nodes", "ms", LISTS),
    Subject("detail_100", "GET /v1/nodes/detail, 100 nodes", "ms", LISTS),
    Subject("nodes_5000", "GET /v1/nodes, 1,000 of 5,000", "ms", LISTS),
    Subject("nodes_5000_all", "GET /v1/nodes, 5,000 by next", "ms", LISTS),
    Subject("detail_5000", "GET /v1/nodes/detail, 1,000 of 5,000", "ms", LISTS),
    Subject("detail_5000_all", "GET /v1/nodes/detail, 5,000 by next", "ms", LISTS),
    Subject("deploys", "deployments end to end", "1/s", SPEED, more_is_better=True),
    Subject("beats", "heartbeats", "1/s", SPEED, more_is_better=True),
)


def prepare(service: Service, directory: Path) -> dict[str, Path]:
    """Make the databases that the scenes begin with; return scene -> file."""
    service.make_schema()
    try:
        service.start()
        service.until_ready()
        seeding.make_first(service)
    finally:
        service.leave()
    made = {}
    for scene, count, state in (
        ("small", SMALL, "available"),
        ("thousand", THOUSAND, "active"),
        ("large", LARGE, "active"),
        ("beats", BEATING_NODES, "available" if service.name == versus.OURS else "deploy hold"),
    ):
        made[scene] = directory / f"{service.name}-{scene}.sqlite"
        shutil.copy(service.database, made[scene])
        columns = seeding.held_by_ironic(TOKEN) if state == "deploy hold" else None
        seeding.fill(made[scene], count, state=state, columns=columns)
    return made


def lists(client: Client, name: str, path: str, count: int, looks: int) -> dict[str, float]:
    """Return milliseconds for a list's first page, and for all its pages if it has several.

    :raises Unanswered: the pages do not have all nodes.
    """
    client.get(path)  # the first one compiles statements and fills caches, in both
    first, whole = [], []
    for _ in range(looks):
        pages = [(seconds, len(page["nodes"])) for seconds, page in client.pages(path)]
        if sum(held for _, held in pages) != count:
            raise Unanswered(f"{path}: {pages} instead of {count} nodes")
        first.append(pages[0][0] * 1000)
        whole.append(sum(seconds for seconds, _ in pages) * 1000)
    return {name: median(first), **({f"{name}_all": median(whole)} if len(pages) > 1 else {})}


def small(service: Service) -> dict[str, float]:
    """Play the scene of that name."""
    began = time.perf_counter()
    found = {"start": service.start()}
    service.until_ready()
    found["start_ready"] = time.perf_counter() - began
    time.sleep(_SETTLE)
    found["memory_idle"], found["memory_idle_uss"] = service.memory()
    client = service.client()
    found |= lists(client, "nodes_100", "/v1/nodes", SMALL, _LOOKS)
    found |= lists(client, "detail_100", "/v1/nodes/detail", SMALL, _LOOKS)
    found["deploys"] = deploys(service)
    return found


def thousand(service: Service) -> dict[str, float]:
    """Play the scene of that name."""
    service.start()
    service.until_ready()
    seen = sum(len(page["nodes"]) for _, page in service.client().pages("/v1/nodes/detail"))
    if seen != THOUSAND:
        raise Unanswered(f"{seen} nodes instead of {THOUSAND}")
    time.sleep(_SETTLE)
    pss, uss = service.memory()
    return {"memory_1000": pss, "memory_1000_uss": uss}


def large(service: Service) -> dict[str, float]:
    """Play the scene of that name."""
    service.start()
    service.until_ready()
    client = service.client()
    found = lists(client, "nodes_5000", "/v1/nodes", LARGE, 3)
    return found | lists(client, "detail_5000", "/v1/nodes/detail", LARGE, 1)


def beats(service: Service) -> dict[str, float]:
    """Play the scene of that name."""
    service.start()
    service.until_ready()
    tokens = hold(service)
    began = time.perf_counter()

    def work(client: Client, mine: list[str]) -> int:
        done = 0
        for uuid in cycle(mine):
            if time.perf_counter() - began > BEAT_SECONDS:
                break
            done += _beat(client, uuid, tokens[uuid])
        return done

    agents = [list(tokens)[n::CLIENTS] for n in range(CLIENTS)]
    done = sum(together(service, [lambda c, mine=mine: work(c, mine) for mine in agents]))
    seconds = time.perf_counter() - began
    _check_beats(service, list(tokens)[:_WARM])
    return {"beats": done / seconds}


def hold(service: Service) -> dict[str, str]:
    """Deploy nodes up to a step that holds them, and look each up as its agent does.

    Ironic's are in that state from the start; see :func:`seeding.held_by_ironic`.

    :returns: uuid -> the agent's token.
    :raises Unanswered: it does not work.
    """
    client = service.client()
    uuids = [seeding.uuid_of("node", number) for number in range(BEATING_NODES)]
    if service.name != versus.OURS:
        for uuid in uuids[:_WARM]:
            _beat(client, uuid, TOKEN)
        return dict.fromkeys(uuids, TOKEN)
    step = {"interface": "deploy", "step": "hold", "priority": 150, "args": {}}
    wish = {"target": "active", "deploy_steps": [step]}
    for uuid in uuids:
        client.send("PUT", f"/v1/nodes/{uuid}/states/provision", wish, wanted=202)
    tokens = {}
    for uuid in uuids:
        _await(client, uuid, "deploy hold", time.perf_counter())
        tokens[uuid] = client.get(f"/v1/lookup?node_uuid={uuid}")["config"]["agent_token"]
    for uuid in uuids[:_WARM]:
        _beat(client, uuid, tokens[uuid])
    return tokens


def _beat(client: Client, uuid: str, token: str) -> int:
    """Send a heartbeat; return 1 when it was accepted, 0 when it is to be sent again."""
    body = {
        "callback_url": seeding.AGENT_URL,
        "agent_version": seeding.AGENT_VERSION,
        "agent_token": token,
    }
    path = f"/v1/heartbeat/{uuid}"
    status, answer = client.request("POST", path, body)
    if status not in (202, 409, 503):
        raise Unanswered(f"POST {path}: {status} {answer[:300]!r}")
    return int(status == 202)


def _check_beats(service: Service, uuids: list[str]) -> None:
    """Refuse a measurement whose beats were answered and not recorded.

    Ironic answers first and records then; it is given time to.
    """
    client, until = service.client(), time.monotonic() + RECORD_SECONDS
    for uuid in uuids:
        while True:
            info = client.get(f"/v1/nodes/{uuid}")["driver_internal_info"]
            if "agent_last_heartbeat" in info:
                break
            if time.monotonic() > until:
                raise Unanswered(f"{service.name} recorded no heartbeat of {uuid}")
            time.sleep(POLL_SECONDS)


def deploys(service: Service) -> float:
    """Return deployments a second: all asked for at once, then waited for one by one.

    :raises Unanswered: one is refused, fails or takes too long.
    """
    uuids = [seeding.uuid_of("node", number) for number in range(DEPLOYS)]
    began = time.perf_counter()

    def ask(client: Client, mine: list[str]) -> None:
        for uuid in mine:
            path = f"/v1/nodes/{uuid}/states/provision"
            while True:
                status, answer = client.request("PUT", path, {"target": "active"})
                if status == 202:
                    break
                if status != 503:  # no worker is free: asked again, as clients do
                    raise Unanswered(f"PUT {path}: {status} {answer[:300]!r}")
                time.sleep(POLL_SECONDS)

    together(
        service,
        [lambda c, n=number: ask(c, uuids[n::CLIENTS]) for number in range(CLIENTS)],
    )
    client = service.client()
    for uuid in uuids:
        _await(client, uuid, "active", began)
    return DEPLOYS / (time.perf_counter() - began)


def _await(client: Client, uuid: str, state: str, began: float) -> None:
    """Look at a node until it is in a state.

    :raises Unanswered: its deployment fails or takes too long.
    """
    while True:
        node = client.get(f"/v1/nodes/{uuid}/states")
        if node["provision_state"] == state:
            return
        if node["provision_state"] == "deploy failed":
            raise Unanswered(f"{uuid} failed: {node['last_error']}")
        if time.perf_counter() - began > DEPLOY_SECONDS:
            raise Unanswered(f"{uuid} is {node['provision_state']} after {DEPLOY_SECONDS} s")
        time.sleep(POLL_SECONDS)


def together(service: Service, works: list[Callable[[Client], Any]]) -> list[Any]:
    """Run each work with a client of its own, in threads; return what they returned.

    :raises BaseException: what the first that failed raised.
    """
    results: list[Any] = [None] * len(works)
    failures: list[BaseException] = []

    def run(place: int, work: Callable[[Client], Any]) -> None:
        try:
            results[place] = work(service.client())
        except BaseException as exc:  # told by the caller's thread
            failures.append(exc)

    threads = [threading.Thread(target=run, args=(place, work)) for place, work in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results


SCENES: dict[str, Callable[[Service], dict[str, float]]] = {
    "small": small,
    "thousand": thousand,
    "large": large,
    "beats": beats,
}


def run(
    pythons: dict[str, Path],
    directory: Path,
    rounds: int,
    say: Callable[[str], None],
) -> versus.Rows:
    """Play all scenes; return the rows.

    :param pythons: service -> interpreter of its environment.
    :param say: is given a line of progress.

    What fails once is not tried again: its reason is among the rows' ``missing``.
    """
    rows = versus.Rows(SUBJECTS)
    kinds: dict[str, type[Service]] = {versus.OURS: Ours, versus.THEIRS: Ironic}
    began = time.monotonic()
    files: dict[str, dict[str, Path]] = {}
    for name, python in pythons.items():
        say(f"preparing the databases of {name}")
        try:
            files[name] = prepare(kinds[name](python, directory / f"{name}-seed"), directory)
        except _FAILURES as exc:
            rows.missing[name] = f"its databases could not be made: {exc}"
    longest = 0.0
    for number in range(rounds):
        round_began = time.monotonic()
        if number and round_began - began + longest > MOST_SECONDS:
            say(f"{number} rounds instead of {rounds}: another would take too long")
            break
        for scene, play in SCENES.items():
            for name in list(files) if number % 2 == 0 else list(files)[::-1]:
                if name in rows.missing:
                    continue
                state = directory / f"{name}-{scene}-{number}"
                service = kinds[name](pythons[name], state)
                shutil.copy(files[name][scene], service.database)
                try:
                    found = play(service)
                except _FAILURES as exc:
                    rows.missing[name] = f"{scene}: {exc}"
                    say(f"round {number + 1}: {scene}: {name}: not measured: {exc}")
                    continue
                finally:
                    service.stop()
                rows.add(name, found)
                shutil.rmtree(state, ignore_errors=True)
                told = ", ".join(f"{key} {value:,.2f}" for key, value in found.items())
                say(f"{time.monotonic() - began:4.0f} s, round {number + 1}: {name}: {told}")
        longest = max(longest, time.monotonic() - round_began)
    return rows
