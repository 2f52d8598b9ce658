"""Serves the WSGI application over HTTP."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from oslo_config import cfg

from deploysteps import exceptions
from deploysteps.api import tls
from deploysteps.api.bodies import DRAINED
from deploysteps.api.wire import HttpServer

LOG = logging.getLogger(__name__)

_MAX_HEADER_BYTES = 256 * 2**10
_QUEUE = 512
"""Connections that wait for a thread."""
_CUT = 3.0
"""Seconds that threads get to notice that their clients were cut off."""


class Server:
    """An HTTP server in threads of its own: ``start()``, ``stop()``."""

    def __init__(self, conf: cfg.ConfigOpts, app: Callable[..., Any]) -> None:
        """Make it; nothing listens before :meth:`start`.

        :raises ConfigurationError: certificate or key cannot be used.
        """
        self._conf = conf
        self._close: Callable[[], None] = getattr(app, "close", lambda: None)
        self._wanted = (str(conf.api.host_ip), int(conf.api.port))
        self._grace = float(conf.conductor.graceful_shutdown_timeout)
        self._server = HttpServer(
            self._wanted,
            app,
            patience=conf.api.request_timeout,
            numthreads=conf.api.threads,
            tls=tls.context(conf),
            server_name="deploysteps",
            request_queue_size=_QUEUE,
            shutdown_timeout=self._grace,
        )
        self._server.max_request_header_size = _MAX_HEADER_BYTES
        # The application answers in words up to here; what is larger is cut off.
        self._server.max_request_body_size = conf.api.max_request_body_bytes + DRAINED
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """The URL that the server listens on; its port is known once started."""
        host, port = self._server.bind_addr if self._thread else self._wanted
        scheme = "http" if self._server.tls is None else "https"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    def start(self) -> None:
        """Listen and serve; returns when connections are accepted.

        :raises ConfigurationError: the address cannot be listened on.
        """
        host, port = self._wanted
        try:
            self._server.prepare()
        except OSError as exc:
            raise exceptions.ConfigurationError(
                f"[api] host_ip, port: cannot listen on {host}:{port}: {exc}; choose another "
                "address, or stop what listens there"
            ) from exc
        self._thread = threading.Thread(target=self._server.serve, name="http", daemon=True)
        self._thread.start()
        LOG.info("The API listens on %s", self.address)

    def stop(self) -> bool:
        """Take no new connection, and let requests in flight finish.

        Those that have not after ``[conductor] graceful_shutdown_timeout``
        are cut off. Safe to call from any thread, and again; not from a
        signal's handler.

        :returns: False when a request still holds a thread: end the process.
        """
        thread, self._thread = self._thread, None
        if thread is None:
            return True
        self._close()
        ending = threading.Thread(target=self._server.stop, name="http-stop", daemon=True)
        ending.start()
        ending.join(self._grace)
        if ending.is_alive():
            LOG.warning("Cut off requests that did not end in time")
            self._server.cut_off()
            ending.join(_CUT)
        thread.join(_CUT)
        return not ending.is_alive()
