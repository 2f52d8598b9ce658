"""Tells of steps that are saved and that nobody has: they may be typing errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import falcon

from deploysteps import exceptions, reserved, texts
from deploysteps.conductor import runtime as runtimes

_MOST = 5


def warn(resp: falcon.Response, steps: Iterable[Mapping[str, Any]]) -> None:
    """Set the header ``Warning`` (RFC 7234, 5.5: ``299``) for steps that nobody declares.

    They are saved all the same: a conductor elsewhere, a driver that is enabled
    later or a machine's agent may have them.
    """
    try:
        registry = runtimes.current().registry
    except exceptions.NotStarted:  # no conductor in this process, so no drivers to look at
        return
    known = registry.declared_steps()
    known |= {f"{step['interface']}.{step['step']}" for step in reserved.offered()}
    named = dict.fromkeys(f"{step['interface']}.{step['step']}" for step in steps)
    told = [_told(name, known) for name in named if name not in known][:_MOST]
    if told:
        resp.set_header("Warning", f'299 deploysteps "{"; ".join(told)}"')


def _told(name: str, known: Iterable[str]) -> str:
    """Return what there is to say, in letters that a header may have."""
    shown = "".join(
        one if one.isascii() and (one.isalnum() or one in "._-") else "?" for one in name
    )
    close = texts.closest(name, known)
    hint = f"; did you mean {close}?" if close else ""
    return f"no driver that is enabled here declares {shown}{hint}"
