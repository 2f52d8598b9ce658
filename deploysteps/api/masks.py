"""The mask in what a client sends: it has read a secret as ``******`` and sends that back.

A secret is never shown, so that whoever changes a copy of what he was shown has the mask where
the secret stands. What is stored stays there; where nothing is stored that the mask could stand
for, the request is refused. The mask itself is stored in place of no secret.
"""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from deploysteps import exceptions, secrets
from deploysteps.secrets import MASK

Hidden = Mapping[str, Collection[str]]
"""``interface.step`` -> its arguments that are secret."""

MISSING: Any = object()
"""Stands where nothing is stored."""

_LONGEST = 200


class Masks:
    """Puts what is stored in the place of the masks of one request."""

    def __init__(self, hidden: Callable[[], Hidden] = dict) -> None:
        """Know what else is secret.

        :param hidden: tells which arguments of steps are; asked only if it matters.
        """
        self._hidden = functools.cache(hidden)

    def filled(self, value: Any, stored: Any, path: Sequence[str], document: Any) -> Any:
        """Return a value with what is stored where it has masks.

        :param stored: what stands at its place, or :data:`MISSING`.
        :param path: the way to it through ``document``; its first part is a member.
        :raises Invalid: it has a mask where nothing is stored.
        """
        if not _holds(value):
            return value
        secret, declared = self._place(document, path)
        if isinstance(value, dict):
            return self._object(value, stored, tuple(path), secret, declared)
        return self._filled(value, stored, tuple(path), secret)

    def new(self, values: Mapping[str, Any]) -> None:
        """Refuse masks in what is made, where nothing is stored yet.

        :raises Invalid: naming the member.
        """
        for name, value in values.items():
            self._filled(value, MISSING, (name,), secrets.names_secret(name))

    def _place(self, document: Any, path: Sequence[str]) -> tuple[bool, frozenset[str]]:
        """Tell whether all is secret that a path leads to, or else which members of it are."""
        secret, declared, holder = False, frozenset[str](), document
        for depth, part in enumerate(path):
            secret = secret or part in declared or (depth > 0 and _is_secret(holder, part))
            declared = self._declared(holder) if part == "args" else frozenset()
            holder = _child(holder, part)
        return secret, declared

    def check_names(self, holder: Any, path: Sequence[str]) -> None:
        """Refuse to make something else of what is stored, for which its secrets may be none.

        :raises Invalid: a step that has arguments that are secret, or a setting whose value is.
        """
        is_setting = path[-1] == "name" and isinstance(holder, dict) and "value" in holder
        if is_setting and secrets.is_secret_setting(holder):
            raise exceptions.Invalid(
                f"{_told(path)} can not be changed alone: the value beside it is secret; replace "
                f"{_told(path[:-1])} as a whole, and give the value."
            )
        if path[0] != "steps" or path[-1] not in ("interface", "step") or len(path) != 3:
            return
        args = holder.get("args") if isinstance(holder, dict) else None
        if isinstance(args, dict) and self._declared(holder) & args.keys():
            raise exceptions.Invalid(
                f"{_told(path)} can not be changed alone: the step has arguments that are secret; "
                f"replace {_told(path[:2])} as a whole, and give the arguments."
            )

    def _declared(self, step: Any) -> frozenset[str]:
        name = _step_of(step)
        return frozenset(self._hidden().get(name, ()) if name is not None else ())

    def _filled(self, value: Any, stored: Any, path: tuple[str, ...], secret: bool) -> Any:
        if isinstance(value, dict):
            return self._object(value, stored, path, secret)
        if isinstance(value, list):
            held = self._same(value, stored)
            return [
                self._filled(inner, held(at), (*path, str(at)), secret) if _holds(inner) else inner
                for at, inner in enumerate(value)
            ]
        if not isinstance(value, str) or MASK not in value:
            return value
        return _text(value, stored, path, secret)

    def _object(
        self,
        value: dict[str, Any],
        stored: Any,
        path: tuple[str, ...],
        secret: bool,
        declared: frozenset[str] = frozenset(),
    ) -> dict[str, Any]:
        # Arguments are kept for the same step only.
        known = stored if _step_of(value) in (None, _step_of(stored)) else MISSING
        args = self._declared(value)
        found = {}
        for name, inner in value.items():
            at, held = (*path, name), _child(known, name)
            inside = secret or name in declared or _is_secret(value, name)
            if name == "value" and "name" in value:  # a setting's, of which the name tells what
                inside = inside or inner == MASK
                held = held if value["name"] == _child(known, "name") else MISSING
            if name == "args" and isinstance(inner, dict):
                found[name] = self._object(inner, held, at, inside, args)
            else:
                found[name] = self._filled(inner, held, at, inside)
        return found

    def _same(self, value: list[Any], stored: Any) -> Callable[[int], Any]:
        """Return what tells which item of a stored list one of the new list stands for.

        Items come and go, and a secret must not become another's: it is one that is shown
        alike, or the only one of the same step; of several it is the one at the same place
        when none came or went.
        """
        if not isinstance(stored, list):
            return lambda at: MISSING
        shown = [self._shown(held) for held in stored]
        alike, steps = defaultdict[str, _Alike](_Alike), defaultdict[str, _Alike](_Alike)
        for held, text in zip(stored, shown, strict=True):
            alike[text].items.append(held)
            steps[_step_of(held) or ""].items.append(held)
        taken: set[int] = set()  # each once: a few bytes must not become many copies

        def same(at: int) -> Any:
            text = self._shown(value[at])
            if len(value) == len(stored) and text == shown[at]:
                found = stored[at]
            elif text in alike:
                found = alike[text].take(taken)
            else:
                name = _step_of(value[at])
                found = steps[name].take(taken) if name is not None else MISSING
            if found is not MISSING:
                if id(found) in taken:
                    return MISSING
                taken.add(id(found))
            return found

        return same

    def _shown(self, item: Any) -> str:
        """Return how an item is shown, as a text that can be looked up."""
        declared = {name: {"secret": True} for name in self._declared(item)}
        told = secrets.masked({**item, "argsinfo": declared} if declared else item)
        return json.dumps(told, sort_keys=True)


class _Alike:
    """Items of a stored list that a client cannot tell apart."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._equal: bool | None = None

    def take(self, taken: Collection[int]) -> Any:
        """Return one that is not taken, if it does not matter which; or :data:`MISSING`."""
        if self._equal is None:
            self._equal = all(item == self.items[0] for item in self.items)
        while self._equal and self.items:
            item = self.items.pop()
            if id(item) not in taken:
                return item
        return MISSING


def _text(value: str, stored: Any, path: tuple[str, ...], secret: bool) -> Any:
    if secret and value == MASK:
        if stored is not MISSING and stored is not None and stored != MASK:
            return stored
    elif not secrets.has_masked_url(value):
        return value
    elif isinstance(stored, str) and secrets.masked_urls(stored) == value:
        return stored
    raise exceptions.Invalid(
        f"{_told(path)} is or has the mask {MASK}, which stands for a secret that is not shown, "
        "and none is stored there that it could stand for; give the value itself, or leave it out."
    )


def _holds(value: Any) -> bool:
    if isinstance(value, str):
        return MASK in value
    if isinstance(value, dict):
        return any(map(_holds, value.values()))
    return isinstance(value, list) and any(map(_holds, value))


def _is_secret(holder: Any, name: str) -> bool:
    """Tell whether a member of an object is secret, by its name or by what it is the value of."""
    is_value = name == "value" and isinstance(holder, dict)
    return secrets.names_secret(name) or (is_value and secrets.is_secret_setting(holder))


def _child(holder: Any, part: str) -> Any:
    if isinstance(holder, dict):
        return holder.get(part, MISSING)
    if isinstance(holder, list) and part.isascii() and part.isdigit() and len(part) < 10:
        return holder[int(part)] if int(part) < len(holder) else MISSING
    return MISSING


def _step_of(item: Any) -> str | None:
    """Return which step an object is; None if it is none."""
    if isinstance(item, dict) and "interface" in item and "step" in item:
        return f"{item['interface']}.{item['step']}"
    return None


def _told(path: Sequence[str]) -> str:
    text = "/" + "/".join(path)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
