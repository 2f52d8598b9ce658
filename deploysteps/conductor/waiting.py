"""When a waiting step is looked at, and when it is given up. Pure functions of times."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg

from deploysteps import states
from deploysteps.steps import Owner, StepFlow

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
    agent_limit: float
    """For waits that the agent ends, and that name no limit, however often it calls."""


def clocks(conf: cfg.ConfigOpts, flow: StepFlow) -> Clocks:
    """Return the settings that bound a flow's waits."""
    own = conf.conductor
    silence = own[flow.callback_timeout] if flow.callback_timeout else 0
    limit = own[flow.wait_timeout] if flow.wait_timeout else own.default_step_timeout
    return Clocks(silence, limit, own.agent_step_timeout)


def after(start: Time, seconds: float) -> Time:
    """Return the time that many seconds later."""
    return start + datetime.timedelta(seconds=seconds)


def earliest(*times: Time | None) -> Time | None:
    """Return the first of some times; None never comes."""
    return min((time for time in times if time is not None), default=None)


def latest(*times: Time | None) -> Time | None:
    """Return the last of some times; None was never."""
    return max((time for time in times if time is not None), default=None)


def deadline(owner: Owner, limit: float | None, since: Time, clocks: Clocks) -> Time | None:
    """Return when the wait is over for good.

    :param limit: of the wait or the declaration; 0 switches it off.
    """
    if limit is None:
        limit = clocks.agent_limit if owner == "agent" else clocks.default_limit
    return after(since, limit) if limit else None


def silent_at(since: Time, last_beat: Time | None, clocks: Clocks) -> Time | None:
    """Return when the agent's silence has lasted too long."""
    if not clocks.silence:
        return None
    return after(max(since, last_beat) if last_beat else since, clocks.silence)


def given_up_at(
    owner: str | None, since: Time | None, last_beat: Time | None, clocks: Clocks
) -> Time | None:
    """Return when a wait ends for want of heartbeats; None where the agent does not end it.

    :param last_beat: or when agents began to be heard, where that was later.
    """
    return silent_at(since, last_beat, clocks) if owner == "agent" and since else None


@dataclasses.dataclass(frozen=True, slots=True)
class Said:
    """What a step, or the flags that it has set, says of its wait."""

    wait: states.Wait
    callback: bool = False
    reboot: bool = False
    reenter: bool = False

    @property
    def owner(self) -> Owner:
        """Who ends the wait."""
        if self.wait.poll is not None and not self.wait.agent:
            return "poller"
        return "callback" if self.callback else "agent"


def said(info: Mapping[str, Any], flow: StepFlow, wait: states.Wait) -> Said:
    """Return what a wait is like, from its state and from the field's flags.

    :param info: the node's ``driver_internal_info``.
    """
    flags = flow.flags
    if wait.poll is not None:
        return Said(wait, reboot=bool(flags and info.get(flags.reboot)))
    theirs = wait.callback or (flow.waits_for == "callback" and not wait.reboot)
    return Said(
        wait,
        callback=theirs or bool(flags and info.get(flags.polling)),
        reboot=wait.reboot or bool(flags and info.get(flags.reboot)),
        reenter=bool(flags and info.get(flags.skip) is False),
    )


def begin(
    said: Said, timeout: float | None, now: Time, last_beat: Time | None, clocks: Clocks
) -> dict[str, Any]:
    """Return the attempt's columns for a wait that begins now."""
    wait, owner = said.wait, said.owner
    limit = wait.limit if wait.limit is not None else timeout
    ends = deadline(owner, limit, now, clocks)
    look = poll = None
    if owner == "agent":
        look = silent_at(now, last_beat, clocks)
    if wait.poll is not None:
        look = earliest(look, after(now, wait.poll))
        poll = {"pause": wait.poll, "grow": wait.grow, "at_most": wait.at_most}
    columns = _columns(owner, now, earliest(look, ends), ends, poll, reenter=said.reenter)
    return {**columns, "reboot": said.reboot}


def pause(seconds: float, now: Time, *, reenter: bool = True) -> dict[str, Any]:
    """Return the columns of a pause that the timer ends.

    :param reenter: the step is entered again then; else it is done.
    """
    return _columns("timer", now, after(now, seconds), None, None, reenter=reenter)


def hold(now: Time) -> dict[str, Any]:
    """Return the columns of a wait that an operator ends, without any limit."""
    return _columns("operator", now, None, None, None, reenter=False)


_PART_OF_WAIT = 25
"""A step that is not ready is entered again after this part of the time that it has waited."""
_LONGEST_GROWN = 60.0


def until_ready(
    seconds: float | None,
    timeout: float | None,
    now: Time,
    since: Time | None,
    last_beat: Time | None,
    clocks: Clocks,
) -> dict[str, Any]:
    """Return the columns of a step that is not ready yet.

    :param seconds: the timer enters it again after these, or later, the longer it has waited;
        None: a heartbeat does.
    :param since: when it first waited: the limit counts from there.
    """
    owner: Owner = "agent" if seconds is None else "timer"
    began = since or now
    ends = deadline(owner, timeout, began, clocks)
    if seconds is None:
        look = silent_at(now, last_beat, clocks)
    else:
        # Each entry is told: one that is asked for every second tells all day that nothing happens.
        grown = min((now - began).total_seconds() / _PART_OF_WAIT, _LONGEST_GROWN)
        look = after(now, max(seconds, SHORTEST, grown))
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
        "reboot": False,
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
