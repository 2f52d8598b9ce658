"""What goes wrong in the same way again and again is told when it begins and when it ends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from deploysteps import exceptions


class Trouble:
    """Keeps something going that is tried again, whatever it raises."""

    def __init__(
        self,
        log: logging.Logger,
        what: str,
        reason: Callable[[Exception], str] | None = None,
    ) -> None:
        """Tell it to this log.

        :param what: what is tried, as the begin of a sentence.
        :param reason: returns a mistake in words, where what it says itself may be secret.
        """
        self._log, self._what, self._reason = log, what, reason
        self._is_away = False

    @contextmanager
    def kept_going(self) -> Iterator[None]:
        """Tell what goes wrong inside, and go on.

        A database that is away is one line when it goes and one when it is back; anything else is
        a mistake, and told each time with where it happened.
        """
        try:
            yield
        except exceptions.DatabaseUnavailable as exc:
            if not self._is_away:
                self._log.error("%s failed; it is tried again: %s", self._what, exc.message)
            self._is_away = True
        except Exception as exc:
            if self._reason is None:
                self._log.exception("%s failed; it is tried again", self._what)
            else:
                self._log.error("%s failed; it is tried again: %s", self._what, self._reason(exc))
                self._log.debug("It failed so", exc_info=True)
        else:
            if self._is_away:
                self._log.info("%s: the database is back", self._what)
            self._is_away = False
