"""What a step's code answered, judged. Anything that is not clearly good is a failure."""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any

from deploysteps import exceptions, states
from deploysteps.conductor import words
from deploysteps.steps import StepFlow


@dataclasses.dataclass(frozen=True, slots=True)
class Done:
    """The step is finished."""


@dataclasses.dataclass(frozen=True, slots=True)
class Waits:
    """The step goes on elsewhere."""

    wait: states.Wait


@dataclasses.dataclass(frozen=True, slots=True)
class Pauses:
    """The step is done after some seconds."""

    seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class Holds:
    """The run goes on when an operator says so."""


@dataclasses.dataclass(frozen=True, slots=True)
class NotReady:
    """The step wants to be entered again."""

    reason: str
    after: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class Failed:
    """The step failed."""

    why: str
    exception: BaseException | None = None
    raised: bool = True
    """A step that raised may be retried; one that answered nonsense may not."""


@dataclasses.dataclass(frozen=True, slots=True)
class StartsOver:
    """The steps are not any more those of the plan: the run begins again at its first."""

    why: str
    exception: BaseException


Answer = Done | Waits | Pauses | Holds | NotReady | StartsOver | Failed
DONE = Done()


def ask(task: Any, flow: StepFlow, call: Callable[[], Any], *, flags: bool = True) -> Answer:
    """Run a driver's code and judge what comes of it.

    :param flags: whether flags that it has set speak against None.
    :raises LockLost: the task's lock was lost: not the step's failure.
    :raises DatabaseUnavailable: nor is this: recovery goes on from what is written.
    """
    here = os.getpid()
    try:
        answer = _ask(task, flow, call, flags)
    finally:
        if os.getpid() != here:
            # The code has forked, and came back in the child as well: one engine is enough.
            os._exit(1)
    changed = task.undo_renaming()
    if changed and not isinstance(answer, Failed):
        return Failed(f"it changed the node's {changed}, which it may not", raised=False)
    return answer


def _ask(task: Any, flow: StepFlow, call: Callable[[], Any], flags: bool) -> Answer:
    states.asked_to_wait.set(None)
    try:
        value = call()
    except exceptions.StepNotReady as exc:
        why = words.text_of(exc)
        if flow.waiting is None:
            return Failed(f"it is not ready ({why}), and {_what(flow)} cannot wait", exc)
        return NotReady(why, exc.after)
    except exceptions.StepsChanged as exc:
        return StartsOver(words.text_of(exc), exc)
    except exceptions.DatabaseUnavailable:
        raise
    except BaseException as exc:  # SystemExit and its like end a step, not the conductor
        if task.lost and isinstance(exc, exceptions.LockLost):
            raise
        return Failed(words.text_of(exc), exc)
    if value is None or _says_done(value, flow):
        return _checked(flow, task.node.driver_internal_info if flags else {})
    if isinstance(value, str) and value == flow.waiting:
        return Waits(value if isinstance(value, states.Wait) else states.Wait(value))
    return Failed(_nonsense(value, flow), raised=False)


def _says_done(value: Any, flow: StepFlow) -> bool:
    """Tell whether an answer is a job's own word for None."""
    return flow.says_done is not None and isinstance(value, str) and value == flow.says_done


def _what(flow: StepFlow) -> str:
    """Return what is judged, to begin a sentence with."""
    return f"{'.'.join(flow.prepare or ())}()" if flow.job else f"a {flow.name} step"


def _checked(flow: StepFlow, info: Mapping[str, Any]) -> Answer:
    """Return None's meaning: a step that began something and did not say so failed."""
    flags = [key for key in asked_flags(flow) if info.get(key)]
    asked = states.asked_to_wait.get()
    if asked is None and not flags:
        return DONE
    what = "called states.wait()" if isinstance(asked, states.Wait) else asked
    what = f"set {', '.join(flags)}" if flags else what
    return Failed(
        f"it {what} and then returned None, as if it were finished; {_wanted(flow)}",
        raised=False,
    )


def _nonsense(value: Any, flow: StepFlow) -> str:
    if inspect.iscoroutine(value) or inspect.isgenerator(value):
        value.close()  # its body never ran and never will
    kind = type(value).__name__
    or_waits = f", or the state {flow.waiting!r} when it goes on elsewhere" if flow.waiting else ""
    shown = f" {value!r}" if type(value) in (bool, int, float) else ""
    done = f"None or {flow.says_done!r}" if flow.says_done else "None"
    if isinstance(value, str) and value in {*states.STATES, states.DEPLOYDONE}:
        shown = f" {str(value)!r}"
    if isinstance(value, states.StepStatus):
        shown = ", which is what check_step() answers"
    return f"it returned {kind}{shown}; {_what(flow)} returns {done} when it is done{or_waits}"


def asked_flags(flow: StepFlow) -> tuple[str, ...]:
    """Return the flags that say, when set, that a step goes on."""
    return (flow.flags.reboot, flow.flags.polling) if flow.flags else ()


def _wanted(flow: StepFlow) -> str:
    if flow.waiting is None:
        return f"{_what(flow)} cannot wait"
    return f"return the wait state ({flow.waiting!r})"
