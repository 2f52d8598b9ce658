"""When a waiting step is looked at, and when it is given up. Pure functions of times."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from deploysteps import states
from deploysteps.steps import Owner

Time = datetime.datetime

SHORTEST = 0.01
"""Seconds between two looks at a step that asked for none: it must not spin."""


@dataclasses.dataclass(frozen=True, slots=True)
class Clocks:
    """The settings that bound waits, in seconds; 0 switches one off."""

    silence: float
    """Without a heartbeat, for waits that the agent ends."""
    default_limit: float
    """For polled and timed waits that name no limit."""


def after(start: Time, seconds: float) -> Time:
    """Return the time that many seconds later."""
    return start + datetime.timedelta(seconds=seconds)


def earliest(*times: Time | None) -> Time | None:
    """Return the first of some times; None never comes."""
    return min((time for time in times if time is not None), default=None)


def deadline(owner: Owner, limit: float | None, since: Time, clocks: Clocks) -> Time | None:
    """Return when the wait is over for good.

    :param limit: of the wait or the declaration; 0 switches it off.
    """
    if limit is None and owner != "agent":
        limit = clocks.default_limit
    return after(since, limit) if limit else None


def silent_at(since: Time, last_beat: Time | None, clocks: Clocks) -> Time | None:
    """Return when the agent's silence has lasted too long."""
    if not clocks.silence:
        return None
    return after(max(since, last_beat) if last_beat else since, clocks.silence)


def begin(
    wait: states.Wait, timeout: float | None, now: Time, last_beat: Time | None, clocks: Clocks
) -> dict[str, Any]:
    """Return the attempt's columns for a wait that begins now."""
    owner: Owner = "agent" if wait.poll is None else "poller"
    limit = wait.limit if wait.limit is not None else timeout
    ends = deadline(owner, limit, now, clocks)
    poll = None
    if wait.poll is None:
        look = silent_at(now, last_beat, clocks)
    else:
        look = after(now, wait.poll)
        poll = {"pause": wait.poll, "grow": wait.grow, "at_most": wait.at_most}
    return _columns(owner, now, earliest(look, ends), ends, poll, reenter=False)


def pause(seconds: float, now: Time) -> dict[str, Any]:
    """Return the columns of a pause that the timer ends by entering the step again."""
    return _columns("timer", now, after(now, seconds), None, None, reenter=True)


def until_ready(
    seconds: float | None,
    timeout: float | None,
    now: Time,
    since: Time | None,
    last_beat: Time | None,
    clocks: Clocks,
) -> dict[str, Any]:
    """Return the columns of a step that is not ready yet.

    :param seconds: the timer enters it again after these; None: a heartbeat does.
    :param since: when it first waited: the limit counts from there.
    """
    owner: Owner = "agent" if seconds is None else "timer"
    began = since or now
    ends = deadline(owner, timeout, began, clocks)
    if seconds is None:
        look = silent_at(now, last_beat, clocks)
    else:
        look = after(now, max(seconds, SHORTEST))
    return _columns(owner, began, earliest(look, ends), ends, None, reenter=True)


def _columns(
    owner: Owner,
    since: Time,
    due: Time | None,
    ends: Time | None,
    poll: Mapping[str, Any] | None,
    *,
    reenter: bool,
) -> dict[str, Any]:
    return {
        "owner": owner,
        "reenter": reenter,
        "waiting_since": since,
        "due_at": due,
        "deadline_at": ends,
        "poll": dict(poll) if poll else None,
    }


def next_poll(poll: Mapping[str, Any], now: Time) -> tuple[Time, dict[str, Any]]:
    """Return when to ask again, and the pause grown."""
    grown = min(float(poll["pause"]) * float(poll["grow"]), float(poll["at_most"]))
    longer = max(grown, SHORTEST)
    return after(now, longer), {**poll, "pause": longer}
