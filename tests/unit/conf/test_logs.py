"""Logging as the service sets it up tells nothing that nobody asked it to tell."""

from __future__ import annotations

import logging

import pytest
from oslo_log import formatters

from deploysteps.conf import logs


class Refused(Exception):
    pass


@pytest.mark.parametrize("kind", [formatters.ContextFormatter, formatters.JSONFormatter])
@pytest.mark.parametrize("wrapped", [True, False])
def test_a_warning_does_not_tell_the_exception_that_is_being_handled(kind, wrapped):
    """F62: oslo.log adds its text to the line, secrets and all."""
    formatter = logs.Discreet(kind()) if wrapped else kind()
    try:
        raise Refused("https://u:hunter2@bmc")
    except Refused:
        record = logging.LogRecord("x", logging.ERROR, "x.py", 1, "it failed", None, None)
        line = formatter.format(record)
    assert "it failed" in line
    assert ("hunter2" in line) is not wrapped


def test_a_traceback_that_is_asked_for_is_there():
    try:
        raise Refused("why")
    except Refused as exc:
        info = (type(exc), exc, exc.__traceback__)
    record = logging.LogRecord("x", logging.ERROR, "x.py", 1, "it failed", None, info)
    assert "Refused: why" in logs.Discreet(formatters.ContextFormatter()).format(record)


def test_a_record_forges_no_line_and_tells_a_terminal_nothing():
    """Texts of machines and requests reach the log: a line of its own begins at its margin."""
    told = "it said: x\n2026-11-30 CRITICAL all nodes were erased\x1b[2J\r\x00"
    record = logging.LogRecord("x", logging.INFO, "x.py", 1, told, None, None)
    first, second = logs.Discreet(formatters.ContextFormatter()).format(record).split("\n")
    assert second.startswith("    2026-11-30")
    assert not set("\x1b\r\x00") & set(first + second)
