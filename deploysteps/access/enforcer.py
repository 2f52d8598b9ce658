"""The rules in force: defaults and what the policy file says, read again when it changes."""

from __future__ import annotations

import ast
import contextlib
import functools
import logging
import os
import threading
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from oslo_config import cfg
from oslo_policy import _checks, policy

from deploysteps import exceptions, steps, texts
from deploysteps.access import rules

LOG = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
"""How often the policy file is looked at, at most."""
_REMEMBERED = 20_000
"""Verdicts that are kept, at most."""
_UNSET = (cfg.Locations.opt_default, cfg.Locations.set_default)

Signature = tuple[tuple[str, int, int], ...]


class Enforcer:
    """Answers whether a rule lets a caller pass.

    A file that is broken stops the start. One that breaks while the service
    runs is told in the log, and the rules of before stay in force.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Read the rules.

        :raises ConfigurationError: the policy file cannot be used.
        """
        self._conf = conf
        self._lock = threading.Lock()
        self._rules = _loaded(conf)
        self._verdicts: dict[Hashable, bool] = {}
        self._read = self._signature()
        self._looked = time.monotonic()

    def check(
        self, rule: str, target: Mapping[str, Any], who: dict[str, Any], key: Hashable
    ) -> bool:
        """Tell whether a rule lets ``who`` do what it is about with ``target``.

        :param target: ``node.owner`` and the like, without those that are not set.
        :param who: the caller's ``roles``, ``project_id``, ``system_scope`` and so on, in the
            same way.
        :param key: stands for all of these: the same answer is given to the same question until
            the rules change.
        """
        self._look()
        verdicts = self._verdicts
        found = verdicts.get(key)
        if found is None:
            found = bool(self._rules.enforce(rule, target, who))
            if len(verdicts) < _REMEMBERED and not _asks_elsewhere(self._rules):
                verdicts[key] = found
        return found

    def has(self, rule: str) -> bool:
        """Tell whether there is such a rule."""
        self._look()
        return rule in self._rules.rules

    def changed(self) -> list[str]:
        """Return the rules that files set."""
        return sorted(self._rules.file_rules)

    def without_effect(self) -> list[str]:
        """Return a sentence for each rule of the files that nothing asks for."""
        return list(_without_effect(self._rules))

    def is_open(self, rule: str) -> bool:
        """Tell whether a rule does not even ask who it is; see :data:`rules.OPEN`."""
        if rule not in rules.OPEN:
            return False
        self._look()
        return str(self._rules.rules[rule]) == rules.EVERYBODY

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS or not self._lock.acquire(blocking=False):
            return
        try:
            self._looked = now
            found = self._signature()
            if found == self._read:
                return
            self._read = found
            self._rules = _loaded(self._conf)
            self._verdicts = {}  # another one: who asks now may still fill the old one
            LOG.info("The policy file was read again")
        except exceptions.ConfigurationError as exc:
            LOG.error("The rules of before stay in force: %s", exc.message)
        finally:
            self._lock.release()

    def _signature(self) -> Signature:
        found = []
        for path in self._files():
            try:
                stat = os.stat(path)
            except OSError:  # gone, which is a change as well
                found.append((path, 0, -1))
            else:
                found.append((path, stat.st_mtime_ns, stat.st_size))
        return tuple(found)

    def _files(self) -> list[str]:
        found = []
        for name in (self._conf.oslo_policy.policy_file, *self._conf.oslo_policy.policy_dirs):
            path = self._conf.find_file(name)
            if path and os.path.isdir(path):
                found += [os.path.join(path, inner) for inner in sorted(os.listdir(path))]
            if path:
                found.append(path)
        return found


def for_tools() -> policy.Enforcer:
    """Return what ``oslopolicy-*`` tools work with: the entry point ``oslo.policy.enforcer``."""
    from deploysteps import conf as configuration

    return _made(configuration.setup())


def _made(conf: cfg.ConfigOpts) -> policy.Enforcer:
    made = policy.Enforcer(conf)
    made.suppress_deprecation_warnings = True
    made.register_defaults(_defaults())
    return made


@functools.cache
def _defaults() -> list[policy.RuleDefault]:
    # They need no checks but oslo.policy's own. To look for others, as it would do, imports
    # what asks other servers: a third of the time that the service takes to start.
    held, _checks.extension_checks = _checks.extension_checks, {}
    try:
        return list(rules.list_rules())
    finally:
        _checks.extension_checks = held


def _loaded(conf: cfg.ConfigOpts) -> policy.Enforcer:
    """Return the rules in force, for good: a change gives another object.

    oslo.policy reads a changed file into the rules that are in use, and for
    a moment there are none: who asks then would be refused.
    """
    made = _made(conf)
    where = f"[oslo_policy] policy_file {conf.oslo_policy.policy_file}"
    _refuse_missing(conf, where)
    try:
        with _unheard():
            made.load_rules(force_reload=True)
    except (OSError, ValueError, TypeError, AttributeError, cfg.Error) as exc:
        told = " ".join(str(exc).split())
        raise exceptions.ConfigurationError(
            f"{where} cannot be read: {told}; it has to be YAML, a line for each rule, such as "
            '"baremetal:node:create": "role:admin"; `deploysteps policy sample` prints one'
        ) from exc
    made.use_conf = False
    _refuse_wrong(made, where)
    return made


def _asks_elsewhere(made: policy.Enforcer) -> bool:
    """Tell whether some rule asks another server, which may answer otherwise the next time.

    Those that do are not oslo.policy's own kinds of checks.
    """
    parts = (part for rule in made.file_rules.values() for part in _parts(rule.check))
    return any(type(part).__module__ != _checks.__name__ for part in parts)


def _refuse_missing(conf: cfg.ConfigOpts, where: str) -> None:
    location = conf.get_location("policy_file", "oslo_policy")
    named = location is not None and location.location not in _UNSET
    if named and not conf.find_file(conf.oslo_policy.policy_file):
        raise exceptions.ConfigurationError(
            f"{where}: there is no such file; `deploysteps policy sample` prints one"
        )


def _refuse_wrong(made: policy.Enforcer, where: str) -> None:
    """Refuse a file whose rules cannot be understood, or ask for rules that are not there."""
    for name, rule in made.file_rules.items():
        if str(rule.check) == rules.NOBODY and str(rule.check_str).strip() != rules.NOBODY:
            raise exceptions.ConfigurationError(
                f"{where}: the rule {name!r} cannot be understood; it should look like "
                '"role:member and project_id:%(node.owner)s", "@" (all) or "!" (none)'
            )
        if name.startswith(f"{rules.STEP}:"):
            _refuse_no_step(name, where)
        for one in _parts(rule.check):
            _refuse_part(made, name, one, where)
    for told in _without_effect(made):
        LOG.warning("%s: %s", where, told)
    try:
        with _unheard():
            made.check_rules(raise_on_violation=True)
    except policy.InvalidDefinitionError as exc:
        names = ", ".join(
            repr(name) for name, check in made.rules.items() if made._cycle_check(check)
        )
        raise exceptions.ConfigurationError(
            f"{where}: {names}: a rule asks for itself, on its own or by way of others"
        ) from exc


def _refuse_part(made: policy.Enforcer, name: str, part: Any, where: str) -> None:
    """Refuse a check that can never be true: it would lock out whoever the rule is to let pass."""
    kind, match = getattr(part, "kind", None), getattr(part, "match", "")
    if isinstance(part, _checks.RuleCheck) and match not in made.rules:
        why = f"asks for rule:{match}, which is not there{_meant(match, made.rules)}"
    elif isinstance(part, _checks.GenericCheck) and not _is_known(str(kind)):
        known = ("role", "rule", *rules.OF_CALLERS)
        why = f"has {kind}:{match}, and there is no check {kind!r}: there are {', '.join(known)}"
    else:
        return
    raise exceptions.ConfigurationError(f"{where}: the rule {name!r} {why}")


def _is_known(kind: str) -> bool:
    """Tell whether a kind of check is something that callers have, or a constant."""
    if kind.partition(".")[0] in rules.OF_CALLERS:
        return True
    try:
        ast.literal_eval(kind)
    except (ValueError, SyntaxError):
        return False
    return True


def _without_effect(made: policy.Enforcer) -> Iterator[str]:
    """Yield what there is to say of rules that are none, and that no other rule asks for."""
    asked = {
        one.match
        for rule in made.rules.values()
        for one in _parts(rule)
        if isinstance(one, _checks.RuleCheck)
    }
    for name in made.file_rules:
        if name in made.registered_rules or name in asked or name.startswith(f"{rules.STEP}:"):
            continue
        yield f"there is no rule {name!r} here; it has no effect" + _meant(
            name, made.registered_rules
        )


def _parts(check: Any) -> Iterator[Any]:
    """Yield the single checks that a check is made of."""
    inner = getattr(check, "rules", None) or (
        [check.rule] if isinstance(check, _checks.NotCheck) else None
    )
    if inner is None:
        yield check
    for one in inner or ():
        yield from _parts(one)


def _meant(name: str, known: Iterable[str]) -> str:
    close = texts.closest(name, known)
    return f"; did you mean {close!r}?" if close else ""


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """Keep oslo.policy from telling, with tracebacks, what is refused here in words."""
    loggers = [logging.getLogger(f"oslo_policy.{name}") for name in ("_parser", "policy")]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def _refuse_no_step(name: str, where: str) -> None:
    interface, _, step = name.removeprefix(f"{rules.STEP}:").partition(".")
    if interface not in steps.INTERFACE_TYPES or not step.isidentifier():
        raise exceptions.ConfigurationError(
            f"{where}: {name!r} is the rule of no step; it should look like "
            f"{rules.of_step('raid', 'create_configuration')}, and interfaces are "
            f"{', '.join(steps.INTERFACE_TYPES)}"
        )
