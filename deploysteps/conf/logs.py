"""Logging as the service sets it up: oslo.log, without what it tells unasked, a line a record."""

from __future__ import annotations

import logging

from oslo_config import cfg
from oslo_log import log

from deploysteps.texts import scrub, visible


def setup(conf: cfg.ConfigOpts, version: str) -> None:
    """Set up logging for a process; programs that embed a conductor call it as well.

    oslo.log adds the text of an exception that is being handled to every
    warning. Texts of exceptions hold secrets; here they are logged masked, by
    whoever handles them, or not at all.
    """
    log.setup(conf, "deploysteps", version=version)
    for handler in logging.getLogger().handlers:
        if handler.formatter is not None:
            handler.setFormatter(Discreet(handler.formatter))


class Discreet(logging.Formatter):
    """Formats as another formatter does, which learns nothing of what is being handled.

    Further lines of a record are indented, and what a terminal would obey is escaped.
    """

    def __init__(self, inner: logging.Formatter) -> None:
        """Wrap ``inner``."""
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; what machines and requests have put into it can forge no other."""
        try:
            # oslo.log asks sys.exc_info(), and tells nothing of an exception of this type.
            raise ValueError
        except ValueError:
            found = self._inner.format(record)
        # The formatter for fluentd returns a dict.
        return visible(scrub(found)).replace("\n", "\n    ") if isinstance(found, str) else found
