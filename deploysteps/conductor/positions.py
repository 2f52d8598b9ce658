"""Where a run is in its list, also when the list has changed meanwhile. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deploysteps import exceptions
from deploysteps.conductor.steps import Key, Plan, check_shape, key_of, label_of
from deploysteps.steps import StepDict, StepFlow


def replanned(stored: Sequence[StepDict], place: int, new: Plan) -> list[StepDict]:
    """Return a list that begins as the stored one and goes on as a new plan says.

    Steps of the stored list that are to be skipped still are.

    :param place: the last entry that has begun; -1 when none has.
    """
    begun = list(stored[: place + 1])
    had = [key_of(entry) for entry in begun]
    skipped = [(key_of(e), e["skip"]) for e in stored[place + 1 :] if e.get("skip")]
    rest: list[StepDict] = []
    for entry in new.entries:
        key = key_of(entry)
        if key in had:
            had.remove(key)
            continue
        mark = next((found for found in skipped if found[0] == key), None)
        if mark is not None:
            skipped.remove(mark)
            entry = {**entry, "skip": mark[1]}
        rest.append(entry)
    return [*begun, *rest]


def difference(stored: Sequence[StepDict], new: Sequence[StepDict]) -> str | None:
    """Return how a plan differs from a stored one, in words; None when it does not."""
    before, after = ([_essence(entry) for entry in entries] for entries in (stored, new))
    if before == after:
        return None
    old, fresh = ({key: rest for key, *rest in plan} for plan in (before, after))
    told = [
        *(f"{'.'.join(key)} is gone" for key in old if key not in fresh),
        *(f"{'.'.join(key)} is new" for key in fresh if key not in old),
        *(
            f"{'.'.join(key)} has {'another priority' if old[key][0] != rest[0] else 'other args'}"
            for key, rest in fresh.items()
            if key in old and old[key] != rest
        ),
    ]
    return "; ".join(told) or "the order is another"


def refuse_another(stored: Sequence[StepDict], new: Sequence[StepDict], flow: StepFlow) -> None:
    """Refuse to go on with a failed run by a plan that is not its own.

    :raises InvalidParameterValue: with the difference.
    """
    differs = difference(stored, new)
    if differs:
        raise exceptions.InvalidParameterValue(
            f"the plan is not any more that of the failed run: {differs}. Without resume, a new "
            f"{flow.name} begins at its first step"
        )


def _essence(entry: Mapping[str, Any]) -> tuple[Key, int, Any]:
    return key_of(entry), entry.get("priority", 0), entry.get("args") or {}


def locate(
    current: Mapping[str, Any] | None, index: Any, plan: Any, *, may_be_empty: bool = False
) -> int:
    """Return where the current step is in the plan; -1 before the first one.

    The stored triple has to be consistent. When the list changed in flight
    the position is found again by the step's identity.

    :raises InconsistentSteps: saying what does not fit.
    """
    if plan == [] and may_be_empty and current is None and index is None:
        return -1
    if not isinstance(plan, list) or not plan:
        raise exceptions.InconsistentSteps(reason="there is no list of steps")
    if not all(issubclass(kind, Mapping) for kind in set(map(type, plan))):
        raise exceptions.InconsistentSteps(reason="the list has entries that are no steps")
    if current is None and index is None:
        return -1
    if current is None:
        raise exceptions.InconsistentSteps(reason=f"no current step, but an index ({index!r})")
    name = label_of(current)
    if isinstance(index, bool) or not isinstance(index, int) or index < 0:
        raise exceptions.InconsistentSteps(reason=f"current step {name} with index {index!r}")
    if index < len(plan) and _same(current, plan[index]):
        return index
    places = [place for place, entry in enumerate(plan) if _same(current, entry)]
    if len(places) != 1:
        raise exceptions.InconsistentSteps(
            reason=f"current step {name} (index {index}) is "
            f"{'no longer' if not places else 'more than once'} in the list"
        )
    return places[0]


def _same(current: Mapping[str, Any], entry: Any) -> bool:
    if not isinstance(entry, Mapping):
        return False
    if current.get("id") is not None or entry.get("id") is not None:
        return current.get("id") == entry.get("id")
    return all(current.get(k) == entry.get(k) for k in ("interface", "step"))


def following(plan: Sequence[Mapping[str, Any]], place: int) -> int:
    """Return the place of the next entry that is to run; the length when there is none."""
    rest = range(place + 1, len(plan))
    return next((i for i in rest if not plan[i].get("skip")), len(plan))


def check_next(entry: Any) -> None:
    """Refuse to begin what is no step, or one that nobody knows.

    :raises InvalidParameterValue: it is.
    """
    check_shape(entry, "the stored list")
    if entry.get("unknown"):
        raise exceptions.InvalidParameterValue(
            f"{label_of(entry)} is unknown: no interface of the node has it, and no agent "
            "has told its steps"
        )
