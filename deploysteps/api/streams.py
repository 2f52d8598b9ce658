"""Streams of events: one thread for all of them, however many there are.

A stream's connection is taken over from the server, so that it holds none of
the server's threads. One query looks for new events for all streams; one that
begins at an older event is brought up to date by pages of its own.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import selectors
import socket
import ssl
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from oslo_config import cfg

from deploysteps import counts
from deploysteps.api.errors import Busy
from deploysteps.api.hearing import Ears
from deploysteps.api.wire import Taken, Taker
from deploysteps.conductor.trouble import Trouble
from deploysteps.db import events, nodes
from deploysteps.db.engine import Database
from deploysteps.db.event_models import Event
from deploysteps.db.nodes import Projects

LOG = logging.getLogger(__name__)

_PAGE = 200
_MOST_BUFFERED = 2**20
"""Bytes that wait for a reader; one that is slower is cut off, and may come again."""
_STALL = 30.0
"""Seconds that a reader may take nothing of what waits for it."""
_LONGEST = 3600.0
"""Seconds that a stream lasts: then its reader comes again, and is asked again who it is."""
_AFTER_ERROR = 1.0
_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError, InterruptedError)

HELLO = b"retry: 2000\n\n"
"""What a stream begins with: how many milliseconds a reader waits before it comes again."""
_ALIVE = b": alive\n\n"


def message(kind: str, data: Any, ident: int | None = None) -> bytes:
    """Return an event as it stands in a stream."""
    named = f"id: {ident}\n" if ident is not None else ""
    return f"{named}event: {kind}\ndata: {json.dumps(data)}\n\n".encode()


def _reset(last: int, kept: events.Edges) -> bytes:
    """Return what says that not all that followed an event is told."""
    told = {"last_event_id": last, "oldest": kept.oldest, "newest": kept.newest}
    return message("reset", told)


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """What a reader wants to hear."""

    last: int
    """The newest event that it has."""
    node: str | None = None
    flow: str | None = None
    ears: Ears | None = None
    """Who hears less than all; None: all is told as it is."""

    @property
    def project(self) -> str | None:
        """The project of whose nodes alone he hears; None: of all."""
        return None if self.ears is None else self.ears.project

    def has(self, event: Event) -> bool:
        """Tell whether an event is among it."""
        return self.node in (None, event.node_uuid) and self.flow in (None, event.flow)


class _Page:
    """Some events, as they are told to several readers."""

    def __init__(self, found: Sequence[Event], projects: Mapping[str, Projects]) -> None:
        self.events, self._projects = found, projects
        self._told = [events.document(event) for event in found]
        self._texts: list[bytes | None] = [None] * len(found)
        """As those hear them who hear all; made once, when one does."""

    def text(self, place: int, ears: Ears | None) -> bytes | None:
        """Return an event as it stands in a reader's stream, None if it is not for him."""
        told = self._told[place]
        if ears is not None:
            heard = ears.heard(told, self._projects)
            return None if heard is None else message(told["type"], heard, told["id"])
        found = self._texts[place]
        if found is None:
            found = self._texts[place] = message(told["type"], told, told["id"])
        return found


class _Stream:
    """One reader."""

    def __init__(self, taken: Taken, wanted: Wanted, now: float) -> None:
        self.sock, self._send, self._chunked = taken
        self.wanted = wanted
        self.cursor: int | None = None
        """The newest event that was looked at for it; None until its begin is known."""
        self.begun = self.told = self.moved = now
        self.buffered = 0
        self._waiting: deque[memoryview] = deque()

    def add(self, data: bytes, now: float) -> None:
        """Put something in line."""
        if not self._waiting:
            self.moved = now
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        self._waiting.append(memoryview(data))
        self.buffered += len(data)
        self.told = now

    def end(self, now: float) -> None:
        """Say that nothing follows."""
        if self._chunked:
            self._waiting.append(memoryview(b"0\r\n\r\n"))
        with suppress(OSError):
            self.flush(now)

    def flush(self, now: float) -> None:
        """Send what the reader takes now.

        :raises OSError: it is gone.
        """
        while self._waiting:
            piece = self._waiting[0]
            try:
                sent = self._send(piece)
            except _LATER:
                return
            self.moved, self.buffered = now, self.buffered - sent
            if sent < len(piece):
                self._waiting[0] = piece[sent:]
            else:
                self._waiting.popleft()


class Streams:
    """Every stream of this process."""

    def __init__(self, conf: cfg.ConfigOpts, database: Database) -> None:
        """Make it; its thread starts with the first stream."""
        self._conf, self._database = conf.events, database
        self._lock = threading.Lock()
        self._places: Counter[str | None] = Counter()
        """Project -> how many streams were admitted; None: those that hear of all projects."""
        self._new: deque[tuple[Taken, Wanted]] = deque()
        self._streams: set[_Stream] = set()
        self._tail: int | None = None
        """The newest event that all have been told; None while nobody listens."""
        self._look_at = 0.0
        self._away = False
        """Whether the database did not answer the last time."""
        self._trouble = Trouble(LOG, "Looking for new events")
        self._thread: threading.Thread | None = None
        self._closed = False
        self._selector: selectors.BaseSelector | None = None
        self._wake: socket.socket | None = None
        self._woken: socket.socket | None = None
        """The two ends by which other threads wake the one that serves the streams."""

    @property
    def count(self) -> int:
        """How many streams there are."""
        return self._places.total()

    def newest(self) -> int:
        """Return the event after which a stream begins that wants only what comes.

        Known before its reader is answered: what happens from then on is told, however long it is
        until the thread takes the stream up.
        """
        return events.settled_newest(self._database, self._tail)

    def admit(self, wanted: Wanted) -> Taker:
        """Make room for a stream; what is returned is to be given its connection.

        Projects have half of the places, and one of them a quarter: those who run the service find
        one, and each project does.

        :raises Busy: there are as many as there may be, or the server stops.
        """
        project, most = wanted.project, int(self._conf.max_streams)
        with self._lock:
            taken = self._places.total()
            full = self._closed or taken >= most
            if project is not None:
                of_projects = taken - self._places[None]
                full = full or of_projects >= max(most // 2, 1)
                full = full or self._places[project] >= max(most // 4, 1)
            if full:
                raise Busy()
            self._places[project] += 1
        return lambda taken: self._take(taken, wanted)

    def _leave(self, wanted: Wanted) -> None:
        """Make a place free; under the lock."""
        self._places[wanted.project] -= 1
        if not self._places[wanted.project]:
            del self._places[wanted.project]

    def _take(self, taken: Taken | None, wanted: Wanted) -> None:
        with self._lock:
            if taken is None or self._closed:
                self._leave(wanted)
                if taken is not None:
                    taken.sock.close()
                return
            taken.sock.setblocking(False)
            self._new.append((taken, wanted))
            if self._thread is None:
                self._selector = selectors.DefaultSelector()
                self._wake, self._woken = socket.socketpair()
                self._wake.setblocking(False)
                self._woken.setblocking(False)
                self._selector.register(self._woken, selectors.EVENT_READ, None)
                self._thread = threading.Thread(target=self._run, name="streams", daemon=True)
                self._thread.start()
        self._ring()

    def _ring(self) -> None:
        if self._wake is not None:
            # Awake already, or gone, where it was closed before.
            with suppress(OSError):
                self._wake.send(b"!")

    def close(self) -> None:
        """End every stream; safe to call again."""
        with self._lock:
            self._closed = True
            thread = self._thread
        self._ring()
        if thread is not None:
            thread.join(10)

    # --- the thread ------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closed:
            try:
                self._turn()
            except Exception:
                # No stream's trouble must end the others, nor the thread.
                LOG.exception("Serving streams of events failed; it is tried again")
                time.sleep(_AFTER_ERROR)
        for stream in list(self._streams):
            self._drop(stream, "stopped")
        while self._new:
            self._new.popleft()[0].sock.close()
        for left in (self._selector, self._wake, self._woken):
            if left is not None:
                left.close()

    def _turn(self) -> None:
        """Wait for something to do, and do it."""
        selector, woken = self._selector, self._woken
        if selector is None or woken is None:
            raise AssertionError("started without a selector")
        for key, mask in selector.select(self._pause()):
            if key.data is None:
                with suppress(BlockingIOError):
                    woken.recv(4096)
            elif mask & selectors.EVENT_READ:
                self._listen(key.data)
        while self._new:
            taken, wanted = self._new.popleft()
            stream = _Stream(taken, wanted, time.monotonic())
            self._streams.add(stream)
            selector.register(taken.sock, selectors.EVENT_READ, stream)
            self._look_at = 0.0
        if not self._streams:
            self._tail = None
            return
        if time.monotonic() >= self._look_at:
            self._look()
        self._serve()

    def _pause(self) -> float | None:
        if not self._streams:
            return None
        heartbeat = min(s.told for s in self._streams) + float(self._conf.stream_heartbeat)
        return max(min(self._look_at, heartbeat) - time.monotonic(), 0.0)

    def _listen(self, stream: _Stream) -> None:
        """Take what a reader says, which is nothing but that it goes."""
        try:
            gone = not stream.sock.recv(4096)
        except _LATER:
            return
        except OSError:
            gone = True
        if gone:
            self._drop(stream, "gone")

    def _look(self) -> None:
        """Look for new events, and tell them to all who are up to date.

        While the database is away the streams stay, and go on where they were.
        """
        interval = self._conf.poll_interval
        self._away = True
        self._look_at = time.monotonic() + max(interval, _AFTER_ERROR)
        with self._trouble.kept_going():
            is_all = self._tell_new()
            self._away = False
            self._look_at = time.monotonic() + interval if is_all else 0.0

    def _tell_new(self) -> bool:
        """Tell the next events, and tell whether these were all."""
        if self._tail is None:
            self._tail = events.settled_newest(self._database)
        self._begin()
        found = events.settled(self._database, self._tail, 5 * _PAGE)
        before, self._tail = self._tail, found[-1].id if found else self._tail
        if found and found[0].id > before + 1:
            self._tell_lost([s for s in self._streams if s.cursor == before], before)
        self._tell(found, before)
        for stream in self._streams:
            if self._is_behind(stream) and not stream.buffered:
                self._catch_up(stream, self._tail)
        return len(found) < 5 * _PAGE

    def _begin(self) -> None:
        """Find out where the streams that are new begin."""
        fresh = [stream for stream in self._streams if stream.cursor is None]
        if not fresh:
            return
        tail, now = self._tail or 0, time.monotonic()
        kept = events.edges(self._database)
        for stream in fresh:
            last = stream.wanted.last
            stream.cursor = last
            if kept.oldest - 1 <= last <= kept.newest:
                continue
            stream.cursor = min(max(kept.oldest - 1, 0), tail) if last < kept.oldest else tail
            stream.add(_reset(last, kept), now)

    def _tell_lost(self, streams: Iterable[_Stream], cursor: int) -> None:
        """Say that events after the last that was looked at are not kept any more, if so."""
        kept = events.edges(self._database)
        if kept.oldest - 1 > cursor:
            for stream in streams:
                stream.add(_reset(cursor, kept), time.monotonic())

    def _tell(self, found: Sequence[Event], before: int) -> None:
        """Tell new events to those who have all ``before`` them."""
        if not found:
            return
        page = self._page(found, self._streams)
        for stream in self._streams:
            if stream.cursor is not None and stream.cursor >= before:
                self._give(stream, page)
                stream.cursor = max(stream.cursor, found[-1].id)

    def _page(self, found: Sequence[Event], readers: Iterable[_Stream]) -> _Page:
        """Return events for these readers; one query asks whose the nodes are, if one needs it."""
        projects: Mapping[str, Projects] = {}
        if found and any(reader.wanted.ears is not None for reader in readers):
            projects = nodes.projects_of(self._database, {event.node_uuid for event in found})
        return _Page(found, projects)

    def _give(self, stream: _Stream, page: _Page) -> None:
        now, wanted = time.monotonic(), stream.wanted
        for place, event in enumerate(page.events):
            if stream.cursor is None or event.id <= stream.cursor or not wanted.has(event):
                continue
            text = page.text(place, wanted.ears)
            if text is not None:
                stream.add(text, now)

    def _is_behind(self, stream: _Stream) -> bool:
        return None not in (stream.cursor, self._tail) and (stream.cursor or 0) < (self._tail or 0)

    def _catch_up(self, stream: _Stream, tail: int) -> None:
        """Give a reader that is behind its next page, once it has taken the last."""
        cursor, wanted = stream.cursor or 0, stream.wanted
        found = events.after(
            self._database,
            cursor,
            _PAGE,
            until=tail,
            node=wanted.node,
            flow=wanted.flow,
            project=wanted.project,
        )
        # Asked afterwards: what is removed meanwhile may be told to be missing and is not.
        self._tell_lost([stream], cursor)
        self._give(stream, self._page(found, [stream]))
        stream.cursor = found[-1].id if len(found) == _PAGE else tail

    def _serve(self) -> None:
        """Send what waits, say that streams live, and end those that do not keep up."""
        now = time.monotonic()
        for stream in list(self._streams):
            if now - stream.told >= self._conf.stream_heartbeat:
                stream.add(_ALIVE, now)
            try:
                stream.flush(now)
            except OSError:
                self._drop(stream, "gone")
                continue
            if not (stream.buffered or self._away) and self._is_behind(stream):
                self._look_at = 0.0  # for its next page
            if stream.buffered > _MOST_BUFFERED or (
                stream.buffered and now - stream.moved > _STALL
            ):
                self._drop(stream, "slow")
            elif now - stream.begun > _LONGEST and not stream.buffered:
                self._drop(stream, "old")
            else:
                self._watch(stream)

    def _watch(self, stream: _Stream) -> None:
        """Wake up when the reader takes more, if there is more."""
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if stream.buffered else 0)
        if self._selector is not None and (self._selector.get_key(stream.sock).events != wanted):
            self._selector.modify(stream.sock, wanted, stream)

    def _drop(self, stream: _Stream, why: str) -> None:
        """End a stream."""
        if stream not in self._streams:
            return
        self._streams.discard(stream)
        with self._lock:
            self._leave(stream.wanted)
        counts.STREAMS_DROPPED.add(why)
        if why in ("stopped", "old"):
            stream.end(time.monotonic())
        if self._selector is not None:
            with suppress(KeyError, ValueError):
                self._selector.unregister(stream.sock)
        with suppress(OSError):
            stream.sock.shutdown(socket.SHUT_RDWR)
        stream.sock.close()
