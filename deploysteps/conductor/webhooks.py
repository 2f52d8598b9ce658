"""Sends events to those who want them by HTTP, at least once, from the database.

Each receiver has a cursor in the events. What is after it becomes deliveries,
in the transaction that moves the cursor; a delivery goes when the receiver has
taken it. One process at a time serves a receiver, by a lease. The events of a
node are sent in their order: what follows waits until the one before is taken,
or is given up after the last try.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import random
import threading
import time

from deploysteps import counts
from deploysteps.conductor.runtime import Runtime
from deploysteps.conductor.trouble import Trouble
from deploysteps.db import events
from deploysteps.db import webhooks as rows
from deploysteps.db.event_models import WebhookDelivery

LOG = logging.getLogger(__name__)

_BATCH = 200
_MOST_PENDING = 10_000
"""Deliveries of one receiver that are kept; beyond, the events themselves are the queue."""
_STANDBY = 2.0
"""Seconds between two looks whether the process that serves a receiver is gone."""
_AFTER_ERROR = 1.0
_SENDER = "webhook"
"""Name of the threads that send."""


class _OthersOnly(logging.Filter):
    """Leaves out what a library logs of the requests here: paths of receivers may be secret."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.threadName != _SENDER


# It logs each request at DEBUG, which an operator may switch on.
logging.getLogger("urllib3.connectionpool").addFilter(_OthersOnly())


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return the value of ``X-Deploysteps-Signature``."""
    signed = timestamp.encode() + b"." + body
    return f"sha256={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


class Webhooks:
    """Every receiver that is configured, each in a thread of its own."""

    def __init__(self, runtime: Runtime) -> None:
        """Make it; nothing is sent before :meth:`start`."""
        # A process of the same name that is killed and started again is another holder.
        holder = rows.holder_of(runtime.host, runtime.boot_id)
        self._runtime, self._holder = runtime, holder
        self._receivers = [
            Receiver(runtime, url, holder) for url in dict.fromkeys(runtime.conf.webhooks.url)
        ]

    def know(self) -> None:
        """Note the receivers: to those that are new, what happens from now on is sent."""
        for receiver in self._receivers:
            receiver.know()

    def start(self) -> None:
        """Start sending."""
        for receiver in self._receivers:
            receiver.start()

    def stop(self, timeout: float) -> None:
        """Take up nothing new, wait for what is on its way, and leave the rest to others."""
        for receiver in self._receivers:
            receiver.leave()
        until = time.monotonic() + timeout
        if all([receiver.ended(until) for receiver in self._receivers]):
            rows.give_back(self._runtime.database, self._holder)


class Receiver:
    """One URL, and what is on its way to it."""

    def __init__(self, runtime: Runtime, url: str, holder: str) -> None:
        """See :class:`Webhooks`."""
        self._conf = conf = runtime.conf.webhooks
        self._every = float(runtime.conf.events.poll_interval)
        self._database, self._url, self._holder = runtime.database, url, holder
        self.name = rows.shown(url)
        self._wanted = frozenset(conf.events)
        self._lease = 4 * conf.timeout + 10
        self._lease_ends = self._take_at = 0.0
        self._endpoint: int | None = None
        self._on_the_way: set[str] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)

    def know(self) -> int:
        """Note the receiver, and return the id of its row."""
        self._endpoint = rows.known(self._database, self._url).id
        return self._endpoint

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def leave(self) -> None:
        """Take up nothing new."""
        self._stopped.set()
        self._woken.set()

    def ended(self, until: float) -> bool:
        """Wait for what is on its way until a time (monotonic); False when something still is."""
        if self._thread.is_alive():
            self._thread.join(max(until - time.monotonic(), 0.1))
        while self._on_the_way and time.monotonic() < until:
            self._woken.wait(0.05)
            self._woken.clear()
        return not (self._on_the_way or self._thread.is_alive())

    def _run(self) -> None:
        trouble = Trouble(LOG, f"Sending webhooks to {self.name}", _reason)
        while not self._stopped.is_set():
            pause = max(self._every, _AFTER_ERROR)
            with trouble.kept_going():  # what was not taken stays
                pause = self.round()
            self._woken.wait(pause)
            self._woken.clear()

    def round(self) -> float:
        """Do what there is to do now; returns the seconds until the next look."""
        endpoint = self.know() if self._endpoint is None else self._endpoint
        if not self._leased(endpoint):
            return _STANDBY
        more = False
        if time.monotonic() >= self._take_at:
            more = self._take(endpoint)
            # Rounds come as fast as deliveries are taken: not each looks for new events.
            self._take_at = 0.0 if more else time.monotonic() + self._every
        begun = self._send_due(self._endpoint) if self._endpoint is not None else 0
        return 0.0 if more or begun else self._every

    def _leased(self, endpoint: int) -> bool:
        """Take or keep the lease."""
        now = time.monotonic()
        if self._lease_ends - now > self._lease * 0.75:
            return True
        if not rows.lease(self._database, endpoint, self._holder, self._lease):
            self._lease_ends = 0.0
            return False
        self._lease_ends = now + self._lease
        return True

    def _take(self, endpoint: int) -> bool:
        """Make deliveries of new events; True when there may be more of them."""
        cursor = rows.cursor(self._database, endpoint)
        if cursor is None:  # the row was removed: it is made anew
            self._endpoint = None
            return False
        found = events.settled(self._database, cursor, _BATCH)
        if not found or rows.pending(self._database, endpoint) >= _MOST_PENDING:
            return False
        self._tell_lost(cursor, found[0].id)
        ready = [
            rows.Ready(event, json.dumps(events.document(event)))
            for event in found
            if not self._wanted or event.type in self._wanted
        ]
        rows.take(self._database, endpoint, self._holder, cursor, found[-1].id, ready)
        return len(found) == _BATCH

    def _tell_lost(self, cursor: int, first: int) -> None:
        if first > cursor + 1 and events.edges(self._database).oldest == first:
            LOG.error(
                "Webhooks to %s: up to %d events were removed before they were sent; raise "
                "[events] keep_hours or keep_rows",
                self.name,
                first - cursor - 1,
            )
            counts.WEBHOOKS.add("lost", by=first - cursor - 1)

    def _send_due(self, endpoint: int) -> int:
        """Send what is due, one of each node at a time; returns how many were begun."""
        begun = 0
        # One that ends while they are read may still be among them, and was sent already.
        with self._lock:
            before = frozenset(self._on_the_way)
        for delivery in rows.due(self._database, endpoint, 2 * self._conf.workers):
            with self._lock:
                busy = delivery.node_uuid in before or delivery.node_uuid in self._on_the_way
                if busy or len(self._on_the_way) >= self._conf.workers or self._stopped.is_set():
                    continue
                if self._lease_ends - time.monotonic() < 2 * self._conf.timeout:
                    break  # another process could begin with it before this one gives up
                self._on_the_way.add(delivery.node_uuid)
            try:
                # A daemon: a process that ends waits for no receiver.
                threading.Thread(
                    target=self._deliver, args=(delivery,), name=_SENDER, daemon=True
                ).start()
            except BaseException:
                with self._lock:
                    self._on_the_way.discard(delivery.node_uuid)
                raise
            begun += 1
        return begun

    def _deliver(self, delivery: WebhookDelivery) -> None:
        try:
            self._try(delivery)
        except BaseException as exc:
            # It was sent or not: it is sent again, which receivers tell by its id.
            LOG.error("Webhook to %s: %s; it is sent again", self.name, _reason(exc))
            LOG.debug("It failed so", exc_info=True)
            self._stopped.wait(_AFTER_ERROR)
        finally:
            with self._lock:
                self._on_the_way.discard(delivery.node_uuid)
            self._woken.set()

    def _try(self, delivery: WebhookDelivery) -> None:
        problem = self._post(delivery)
        if problem is None:
            counts.WEBHOOKS.add("taken")
            rows.delivered(self._database, delivery, self._holder)
            return
        conf, tries = self._conf, delivery.tries + 1
        dead = tries >= conf.max_tries
        counts.WEBHOOKS.add("dead" if dead else "failed")
        pause = min(conf.first_pause * 2 ** min(tries - 1, 40), conf.longest_pause)
        told = LOG.error if dead else LOG.info
        told(
            "Webhook to %s: event %d, try %d: %s%s",
            self.name,
            delivery.event_id,
            tries,
            problem,
            "; given up, see `deploysteps webhooks list`" if dead else "",
        )
        later = None if dead else pause * random.uniform(0.5, 1.0)
        rows.failed(self._database, delivery, self._holder, problem, later)

    def _post(self, delivery: WebhookDelivery) -> str | None:
        """Send a delivery; returns what was wrong, None if it was taken."""
        import requests  # here: most services call nobody, and it takes five megabytes

        from deploysteps import bounded

        body, timestamp = delivery.body.encode(), str(int(time.time()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "deploysteps",
            "X-Deploysteps-Event": json.loads(delivery.body)["type"],
            "X-Deploysteps-Event-Id": str(delivery.event_id),
            "X-Deploysteps-Timestamp": timestamp,
            "X-Deploysteps-Signature": signature(self._conf.secret, timestamp, body),
        }
        try:
            with bounded.Session() as session:
                session.trust_env = False  # neither a proxy nor passwords of the environment
                session.mount("http://", bounded.Adapter())
                session.mount("https://", bounded.Adapter())
                # To connect, and for the whole head of the answer.
                bounded.within(2 * self._conf.timeout)
                answer = session.post(
                    self._url,
                    data=body,
                    headers=headers,
                    timeout=(self._conf.timeout, self._conf.timeout),
                    verify=self._conf.ca_file or True,
                    allow_redirects=False,
                    stream=True,  # what it answers is not read
                )
                answer.close()
        except (requests.RequestException, OSError, ValueError) as exc:
            return _reason(exc)
        if 200 <= answer.status_code < 300:
            return None
        also = ", and redirects are not followed" if 300 <= answer.status_code < 400 else ""
        return f"it answered {answer.status_code}{also}"


def _reason(exc: BaseException) -> str:
    """Return what happened, without the address, which may hold what is secret."""
    cause: BaseException | None = exc
    seen = 0
    while cause is not None and seen < 10:
        if isinstance(cause, OSError) and cause.strerror:
            return f"{type(exc).__name__}: {cause.strerror}"
        cause, seen = cause.__cause__ or cause.__context__, seen + 1
    return type(exc).__name__
