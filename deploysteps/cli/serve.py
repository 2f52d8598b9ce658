"""``deploysteps serve``: API and conductor in one process."""

from __future__ import annotations

import errno
import gc
import importlib.metadata
import os
import queue
import signal
import socket
import threading
from types import FrameType
from typing import TYPE_CHECKING

import click
from oslo_config import cfg
from oslo_log import log

from deploysteps import conf, exceptions
from deploysteps.addresses import is_loopback
from deploysteps.cli.app import Command, State, pass_state
from deploysteps.cli.errors import ExitCode
from deploysteps.conf import logs

if TYPE_CHECKING:
    from deploysteps.api.access import Access
    from deploysteps.conductor.service import Service

LOG = log.getLogger(__name__)
_LOOK_SECONDS = 0.5
VERSION = importlib.metadata.version("deploysteps")


@click.command(cls=Command)
@pass_state
def serve(state: State) -> int:
    """Run the service: the REST API and a conductor, until SIGTERM or Ctrl-C.

    The first signal lets running steps finish within [conductor]
    graceful_shutdown_timeout; a second one ends at once, which loses nothing
    either: what is cut off is treated as a crash is. It also ends, with exit
    code 1, when another process takes this conductor's name ([DEFAULT] host).
    An SQLite database is for one such process.
    """
    gc.disable()  # what is loaded now stays: looking for garbage in it would only take time
    try:
        return _serve(state)
    finally:
        gc.enable()


def _serve(state: State) -> int:
    settings = conf.setup(config_files=state.config_files)
    conf.check(settings)
    logs.setup(settings, VERSION)
    for strange in conf.unknown(settings):
        LOG.warning("Ignored: %s", strange)
    # What is read is refused now, not when the conductor has begun to work.
    access, service = read_all(settings)
    refuse_taken_port(settings)

    # The heavy rooms are imported here: other commands start without them.
    from deploysteps.api.app import create_app
    from deploysteps.api.server import Server

    _warn_of_clear_text(settings)
    stopping = _on_signals()
    try:
        service.start(stopping)
    except (exceptions.DatabaseUnavailable, exceptions.NotStarted):
        if not stopping.is_set():
            raise
        LOG.info("Stopped before the start was done")
        return ExitCode.INTERRUPTED
    answered = True
    try:
        server = Server(settings, create_app(settings, service.database, service.client, access))
        server.start()
        gc.freeze()
        gc.enable()
        try:
            _announce(state, settings, server.address, service.database.place)
            while not (stopping.wait(_LOOK_SECONDS) or service.displaced.is_set()):
                pass
            LOG.info("Stopping: nothing new is taken")
        finally:
            answered = server.stop()
    finally:
        displaced = service.displaced.is_set()
        idle = service.stop(0 if displaced else None) and answered
    LOG.info("Stopped")
    code = ExitCode.OK
    if displaced:
        code = ExitCode.FAILED
        click.echo(f"Error: another process took the name {settings.host}; exiting", err=True)
    if not idle:
        # Threads that were cut off would keep the process: it ends as in a crash.
        os._exit(code)
    return code


def read_all(settings: cfg.ConfigOpts) -> tuple[Access, Service]:
    """Read what a service reads before it begins; nothing is connected to.

    :raises ConfigurationError: something of it cannot be used.
    """
    _refuse_no_address(settings)
    _refuse_open_door(settings)

    from deploysteps.api import network_data, tls
    from deploysteps.api.access import Access
    from deploysteps.cli.db import refuse_other_file
    from deploysteps.conductor.service import Service

    access = Access.of(settings)
    tls.context(settings)
    network_data.Checker(settings)
    service = Service(settings)
    refuse_other_file(service.database)
    return access, service


def _refuse_no_address(settings: cfg.ConfigOpts) -> None:
    """Refuse to listen on what is no address.

    :raises ConfigurationError: naming the setting.
    """
    api = settings.api
    try:
        socket.getaddrinfo(api.host_ip, api.port, type=socket.SOCK_STREAM)
    except OSError as exc:
        raise exceptions.ConfigurationError(
            f"[api] host_ip {api.host_ip!r} is neither an address nor the name of a machine "
            f"({exc.strerror}); use one such as 127.0.0.1 or ::1"
        ) from exc


def _refuse_open_door(settings: cfg.ConfigOpts) -> None:
    """Refuse to let others in without authentication unless that is wanted.

    :raises ConfigurationError: naming the settings that change it.
    """
    api = settings.api
    if settings.auth_strategy != "noauth" or api.allow_public_noauth or is_loopback(api.host_ip):
        return
    raise exceptions.ConfigurationError(
        f"[api] host_ip {api.host_ip} can be reached by other machines and there is no "
        "authentication: listen on 127.0.0.1, or, when the network is to be trusted, set "
        "[api] allow_public_noauth = true"
    )


def _warn_of_clear_text(settings: cfg.ConfigOpts) -> None:
    api = settings.api
    if settings.auth_strategy == "noauth" or api.enable_ssl_api or is_loopback(api.host_ip):
        return
    LOG.warning(
        "Passwords and tokens come to %s without encryption, unless a proxy in front of it does "
        "that; see [api] enable_ssl_api",
        api.host_ip,
    )


def refuse_taken_port(settings: cfg.ConfigOpts) -> None:
    """Refuse to start beside a service that runs, before its locks are taken for old ones.

    :raises ConfigurationError: when the address cannot be listened on.
    """
    host, port = settings.api.host_ip, settings.api.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as exc:
            hint = "choose another [api] host_ip or port"
            if exc.errno == errno.EADDRNOTAVAIL:
                hint = "[api] host_ip has to be an address of this machine"
            if exc.errno == errno.EADDRINUSE:
                hint = f"is the service running already? If not, {hint}"
            raise exceptions.ConfigurationError(
                f"cannot listen on {host}:{port} ({exc.strerror}); {hint}"
            ) from exc


def _on_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set; a second signal ends the process.

    A handler interrupts the main thread wherever it is, also where it holds the
    lock of the event. It only puts a word in a queue, which takes no lock.
    """
    stopping = threading.Event()
    heard: queue.SimpleQueue[int] = queue.SimpleQueue()

    def handle(number: int, _frame: FrameType | None) -> None:
        heard.put(number)

    def obey() -> None:
        heard.get()
        stopping.set()
        heard.get()
        os._exit(ExitCode.INTERRUPTED)

    threading.Thread(target=obey, name="signals", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
    return stopping


def _announce(state: State, settings: cfg.ConfigOpts, address: str, database: str) -> None:
    told = {
        "version": VERSION,
        "address": address,
        "database": database,
        "authentication": None if settings.auth_strategy == "noauth" else settings.auth_strategy,
        "pid": os.getpid(),
    }
    state.output.report(
        f"deploysteps {told['version']} serves {address}, database {told['database']}, "
        + (
            f"authentication by {told['authentication']}"
            if told["authentication"]
            else "NO authentication: whoever reaches the address may do all"
        ),
        told,
    )
