"""``auth_strategy = http_basic``: users and passwords from a file, as ``htpasswd`` makes it."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hmac
import logging
import os
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import bcrypt
from oslo_config import cfg

from deploysteps import exceptions, texts
from deploysteps.addresses import network
from deploysteps.api import errors

LOG = logging.getLogger(__name__)

CHALLENGE = 'Basic realm="deploysteps", charset="UTF-8"'
KNOWN_SECONDS, REFUSED_SECONDS = 60.0, 5.0
"""How long it is remembered that a password is right, and that it is wrong."""
REMEMBERED = 1024
"""Answers that are remembered, at most."""
_BCRYPT = (b"$2y$", b"$2a$", b"$2b$")
_BCRYPT_READS = 72
"""Bytes of a password that bcrypt looks at; the rest never counted."""
_COST = 10
_UNNAMED = "admin"
"""The role of who is not named in the settings, as in the field."""


class Users:
    """The users of the file, who are read again when it changes.

    A check by bcrypt takes tens of milliseconds, on purpose. Who proves the
    same again is known for a minute, by a digest that only this process can
    make; and but few threads do such checks at a time, so that guessing
    passwords from one address slows down the guessing and nobody elsewhere.
    """

    def __init__(self, path: str, threads: int) -> None:
        """Read the file.

        :param threads: of the server; a quarter of them checks passwords at a time.
        :raises ConfigurationError: the file is missing or broken.
        """
        self._path = path
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = _stamp(path)
        self._hashes = _read(path)
        self._nobody = _hash_of_nobody(self._hashes)
        self._key = secrets.token_bytes(32)
        self._answers: dict[bytes, tuple[float, bool]] = {}
        self._gate = Gate(threads)

    def strangers(self, names: Iterable[str]) -> list[str]:
        """Return a sentence for each of these names that no user has."""
        known = self._hashes
        return [
            f"the file of the users has no {name!r}"
            + (f" (did you mean {close!r}?)." if (close := texts.closest(name, known)) else ".")
            for name in names
            if name not in known
        ]

    def check(self, user: str, password: bytes, address: str) -> bool:
        """Tell whether a password is this user's.

        An unknown user takes as long as a wrong password.

        :param address: where the request comes from.
        :raises Busy: too many are being checked, for this user, for this address or in all.
        """
        self._look()
        wanted = self._hashes.get(user, self._nobody)
        digest = hmac.digest(self._key, b"\0".join((user.encode(), wanted, password)), "sha256")
        known = self._remembered(digest)
        if known is not None:
            return known
        with self._gate(digest, user, address):
            known = self._remembered(digest)  # another request may have been here before
            if known is None:
                known = _matches(password, wanted) and user in self._hashes
                self._remember(digest, known)
        return known

    def _remembered(self, digest: bytes) -> bool | None:
        until, answer = self._answers.get(digest, (0.0, False))
        return answer if until > time.monotonic() else None

    def _remember(self, digest: bytes, answer: bool) -> None:
        now = time.monotonic()
        with self._lock:
            if len(self._answers) >= REMEMBERED:
                self._answers = {k: kept for k, kept in self._answers.items() if kept[0] > now}
            while len(self._answers) >= REMEMBERED:
                # Wrong ones first: guessing must not make the server forget who is known.
                wrong = (k for k, (_, right) in self._answers.items() if not right)
                del self._answers[next(wrong, None) or next(iter(self._answers))]
            self._answers[digest] = (now + (KNOWN_SECONDS if answer else REFUSED_SECONDS), answer)

    def _look(self) -> None:
        """Read the file again when it is another; a broken one changes nothing."""
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        with self._lock:
            if stamp == self._stamp:
                return
            self._stamp = stamp
            try:
                hashes = _read(self._path)
                self._nobody = _hash_of_nobody(hashes)
                self._hashes = hashes
            except exceptions.ConfigurationError as exc:
                LOG.error("The users of before stay: %s", exc.message)
                return
        LOG.info("The users were read again: there are %d", len(hashes))


@dataclasses.dataclass(slots=True)
class _Check:
    """A check that runs, and who waits for what comes out."""

    user: str
    place: str
    waiting: list[str] = dataclasses.field(default_factory=list)
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)


class Gate:
    """Lets few checks run at a time, one for each password, and few requests wait for them.

    An address has half of the checks. A user has all but one of them, but always more than an
    address: who guesses his password from one leaves him room elsewhere, and who guesses it
    from many leaves room for others. Nor do the requests from one address hold more than half
    of the threads.
    """

    def __init__(self, threads: int) -> None:
        """Make it for a server with so many threads."""
        self._most = max(2, threads // 4)
        self._of_place = self._most // 2
        self._of_user = max(self._of_place + 1, self._most - 1)
        self._waiting = max(2, threads // 2)
        self._lock = threading.Lock()
        self._running: dict[bytes, _Check] = {}

    @contextmanager
    def __call__(self, digest: bytes, user: str, address: str) -> Iterator[None]:
        """Go in and out; wait for another request that proves the very same.

        :raises Busy: it is full.
        """
        place = network(address)
        with self._lock:
            check = self._running.get(digest)
            if not self._has_room(check, user, place):
                raise errors.Busy()
            if check is None:
                check = self._running[digest] = _Check(user, place)
            check.waiting.append(place)
        try:
            with check.lock:
                yield
        finally:
            with self._lock:
                check.waiting.remove(place)
                if not check.waiting:
                    del self._running[digest]

    def _has_room(self, check: _Check | None, user: str, place: str) -> bool:
        running = self._running.values()
        if sum(other.waiting.count(place) for other in running) >= self._waiting:
            return False
        if check is not None:
            return len(check.waiting) < self._waiting
        return (
            len(running) < self._most
            and sum(other.place == place for other in running) < self._of_place
            and sum(other.user == user for other in running) < self._of_user
        )


class HttpBasic:
    """Finds out who sends a request with ``Authorization: Basic``."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Read the users.

        :raises ConfigurationError: there are none, or their file is broken.
        """
        self._users = Users(conf.http_basic_auth_user_file, conf.api.threads)
        self._roles: Mapping[str, str] = conf.api.http_basic_roles
        others = self._roles.get("*", _UNNAMED)
        for told in self._users.strangers(name for name in self._roles if name != "*"):
            LOG.warning(
                "[api] http_basic_roles: %s Who is not named there has the role %s", told, others
            )

    def user(self, header: str | None, address: str) -> tuple[str, str]:
        """Return the user's name and role.

        :raises Unauthorized: no, unreadable or wrong credentials; it is not told which.
        """
        if header is None:
            raise errors.Unauthorized("The request needs authentication.", challenge=CHALLENGE)
        name, password = _credentials(header)
        if not self._users.check(name, password, address):
            LOG.info("Refused a wrong name or password from %s", address)
            raise errors.Unauthorized("Incorrect username or password", challenge=CHALLENGE)
        return name, self._roles.get(name, self._roles.get("*", _UNNAMED))


def _credentials(header: str) -> tuple[str, bytes]:
    scheme, _, token = header.strip().partition(" ")
    try:
        if scheme.lower() != "basic":
            raise ValueError("another scheme")
        name, colon, password = base64.b64decode(token.strip(), validate=True).partition(b":")
        if not colon:
            raise ValueError("no colon")
        return name.decode("utf-8"), password
    except (binascii.Error, ValueError) as exc:
        raise errors.Unauthorized(
            "The Authorization header has to be 'Basic' and the base64 of NAME:PASSWORD.",
            challenge=CHALLENGE,
        ) from exc


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: str) -> dict[str, bytes]:
    """Return user -> hash.

    :raises ConfigurationError: the file cannot be read, or a line is not right.
    """
    where = f"[DEFAULT] http_basic_auth_user_file {path}"
    make = "`htpasswd -nbB NAME PASSWORD` prints such a line"
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "it is not UTF-8 text"
        raise exceptions.ConfigurationError(
            f"{where} cannot be read ({why}): it needs a line NAME:HASH for each user; {make}"
        ) from exc
    found: dict[str, bytes] = {}
    for number, line in enumerate(lines, 1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        name, _, hashed = entry.partition(":")
        if not name or not _is_bcrypt(hashed.encode()):
            raise exceptions.ConfigurationError(
                f"{where}, line {number}: it should be NAME:HASH with a hash of bcrypt; {make}"
            )
        if name in found:
            raise exceptions.ConfigurationError(
                f"{where}, line {number}: the user {name!r} stands there twice; keep one line"
            )
        found[name] = hashed.encode()
    if not found:
        raise exceptions.ConfigurationError(
            f"{where} has no users: it needs a line NAME:HASH for each; {make}"
        )
    return found


def _is_bcrypt(hashed: bytes) -> bool:
    if not hashed.startswith(_BCRYPT) or len(hashed) != 60:
        return False
    try:
        # A try with the lowest cost: the text is the same but for two digits.
        bcrypt.checkpw(b"", hashed[:4] + b"04" + hashed[6:])
    except ValueError:
        return False
    return hashed[4:6].isdigit() and 4 <= int(hashed[4:6]) <= 31


def _hash_of_nobody(hashes: Mapping[str, bytes]) -> bytes:
    """Return a hash that takes as long as the users' and has no password."""
    cost = max((hashed[4:6] for hashed in hashes.values()), default=b"%02d" % _COST)
    salt = bcrypt.gensalt(4)
    return b"$2b$" + cost + bcrypt.hashpw(secrets.token_bytes(24).hex().encode(), salt)[6:]


def _matches(password: bytes, hashed: bytes) -> bool:
    try:
        return bcrypt.checkpw(password[:_BCRYPT_READS], hashed)
    except ValueError:  # a NUL in it, which no password has
        return False
