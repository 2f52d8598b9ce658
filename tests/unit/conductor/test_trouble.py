"""What is tried again fills no log while the database is away."""

from __future__ import annotations

import logging

import pytest

from deploysteps import exceptions
from deploysteps.conductor.trouble import Trouble

LOG = logging.getLogger(__name__)


@pytest.fixture
def attempt(caplog, request):
    caplog.set_level(logging.INFO, LOG.name)
    trouble = Trouble(LOG, "Looking", *getattr(request, "param", ()))

    def tried(exc=None):
        """Try once; returns what was told."""
        caplog.clear()
        with trouble.kept_going():
            if exc is not None:
                raise exc
        return [(r.levelname, r.getMessage(), bool(r.exc_info)) for r in caplog.records]

    return tried


def test_a_database_that_is_away_is_told_once_and_when_it_is_back(attempt):
    away = exceptions.DatabaseUnavailable(reason="refused")
    told = "Looking failed; it is tried again: The database does not answer: refused"
    for _ in range(2):
        assert attempt() == []
        assert attempt(away) == [("ERROR", told, False)]
        assert attempt(away) == attempt(away) == []
        assert attempt() == [("INFO", "Looking: the database is back", False)]


def test_any_other_mistake_is_told_each_time_with_its_place(attempt):
    for _ in range(2):
        assert attempt(ZeroDivisionError()) == [
            ("ERROR", "Looking failed; it is tried again", True)
        ]


@pytest.mark.parametrize("attempt", [(lambda exc: type(exc).__name__,)], indirect=True)
def test_a_mistake_that_may_tell_a_secret_is_told_in_other_words(attempt):
    told = "Looking failed; it is tried again: ZeroDivisionError"
    assert attempt(ZeroDivisionError("T0PSECRET")) == [("ERROR", told, False)]
    away = exceptions.DatabaseUnavailable(reason="refused")
    assert len(attempt(away)) == 1 and attempt(away) == []


def test_what_ends_a_process_is_not_held_up(attempt):
    with pytest.raises(SystemExit):
        attempt(SystemExit())
