"""Looks at every option once, so that a bad value is refused at start.

oslo.config converts a value when it is read: without this a port of 99999
would pass the start and fail the first request.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from oslo_config import cfg

from deploysteps import exceptions, texts
from deploysteps.conf.api import ROLES
from deploysteps.conf.events import EVENT_TYPES
from deploysteps.conf.types import HttpAddress

_LEAST_SECRET = 16
_NO_NUMBER = re.compile(
    r"^(?:invalid literal for int\(\) with base 10|could not convert string to float): (.*)$"
)
"""Python's own words, which oslo.config passes on."""


def check(conf: cfg.ConfigOpts) -> None:
    """Read every option and compare those that depend on each other.

    :raises ConfigurationError: naming every bad option, what is wrong with it
        and what it takes; no secret value is told.
    """
    if found := problems(conf):
        raise exceptions.ConfigurationError("; ".join(found))


def problems(conf: cfg.ConfigOpts) -> list[str]:
    """Return a line for each bad option or, when there is none, for each contradiction."""
    bad = [why for group, opt in _options(conf) if (why := _problem(conf, group, opt))]
    return bad or list(_contradictions(conf))


def unknown(conf: cfg.ConfigOpts) -> list[str]:
    """Return a line for each setting that no option has, with what may be meant."""
    known: dict[str, set[str]] = {}
    for group, opt in _options(conf):
        known.setdefault(group or "DEFAULT", set()).update((opt.name, opt.dest))
        for old in opt.deprecated_opts:  # they are honoured all the same
            known.setdefault(old.group or group or "DEFAULT", set()).add(str(old.name))
    return [*_unknown_in_files(conf, known), *_unknown_in_environment(known)]


def _options(conf: cfg.ConfigOpts) -> Iterator[tuple[str | None, cfg.Opt]]:
    for info, group in conf._all_opt_infos():
        yield (group.name if group else None), info["opt"]


def _problem(conf: cfg.ConfigOpts, group: str | None, opt: cfg.Opt) -> str | None:
    try:
        value = conf[group][opt.dest] if group else conf[opt.dest]
    except (cfg.Error, ValueError) as exc:
        # oslo.config wraps the type's own complaint, in words that tell the place; so do we.
        cause = exc.__context__ if isinstance(exc, cfg.ConfigSourceValueError) else None
        reason = _NO_NUMBER.sub(r"\1 is no number", str(cause or exc))
    else:
        if value is not None or opt.default is None:
            return None
        reason = "the value is empty"
    if opt.secret:
        reason = "the value is not valid"
    variable = _variable(group, opt.name)
    where = f" ({variable} in the environment)" if variable in os.environ else ""
    return f"[{group or 'DEFAULT'}] {opt.name}{where}: {reason}; {_remedy(opt)}"


def _remedy(opt: cfg.Opt) -> str:
    item = getattr(opt.type, "item_type", None)
    # What is secret is not shown: then this alone tells what is missing.
    listed = " of addresses that begin with http:// or https://"
    listed = listed if isinstance(item, HttpAddress) else ""
    allowed = f"allowed: {getattr(opt.type, 'type_name', 'value')}{listed}"
    least, most = getattr(opt.type, "min", None), getattr(opt.type, "max", None)
    if least is not None and most is not None:
        allowed += f" from {least:.10g} to {most:.10g}"
    default = "" if opt.secret or opt.default is None else f", default {opt.default}"
    return allowed + default


def _contradictions(conf: cfg.ConfigOpts) -> Iterator[str]:
    yield from _doors(conf)
    if not conf.enabled_hardware_types:
        yield "[DEFAULT] enabled_hardware_types is empty: name at least one, such as fake-hardware"
    interval, timeout = conf.conductor.heartbeat_interval, conf.conductor.heartbeat_timeout
    if timeout <= interval:
        yield (
            f"[conductor] heartbeat_timeout ({timeout:g}) must be longer than "
            f"heartbeat_interval ({interval:g}), or a conductor that is alive counts as dead; "
            "three times as long is a good start"
        )
    hooks = conf.webhooks
    if hooks.url and len(hooks.secret or "") < _LEAST_SECRET:
        yield (
            f"[webhooks] secret must have at least {_LEAST_SECRET} characters when there is a "
            "url; make one with: openssl rand -hex 32"
        )
    if hooks.url and not conf.events.enabled:
        yield "[webhooks] url needs [events] enabled = true: what is sent are events"
    strange = [name for name in hooks.events if name not in EVENT_TYPES]
    if strange:
        yield (
            f"[webhooks] events: there is no type {strange[0][:80]!r}; there are "
            f"{', '.join(EVENT_TYPES)}"
        )


def _doors(conf: cfg.ConfigOpts) -> Iterator[str]:
    for user, role in conf.api.http_basic_roles.items():
        if role not in ROLES:
            yield (
                f"[api] http_basic_roles: {role!r}, the role of {user}, is none of "
                f"{', '.join(ROLES)}"
            )
    if conf.api.enable_ssl_api:
        for name in ("cert_file", "key_file"):
            if not conf.api[name]:
                yield f"[api] enable_ssl_api needs [api] {name}: the path of a file in PEM"


def _variable(group: str | None, name: str) -> str:
    return f"OS_{(group or 'DEFAULT').upper()}__{name.upper()}"


def _unknown_in_files(conf: cfg.ConfigOpts, known: dict[str, set[str]]) -> Iterator[str]:
    for path in conf.config_file or ():
        sections: dict[str, dict[str, list[str]]] = {}
        cfg.ConfigParser(path, sections).parse()
        for section, settings in sections.items():
            if section == "keystone_authtoken":  # what is in it depends on what is installed
                continue
            if section not in known:
                yield f"{path}: there is no group [{section}]{_meant(section, known)}"
                continue
            for name in settings:
                dest = name.replace("-", "_")
                if dest not in known[section]:
                    hint = _meant(name, known[section])
                    elsewhere = [other for other, names in known.items() if dest in names]
                    if elsewhere:  # it is spelled well, and in the wrong place
                        hint = f"; did you mean [{elsewhere[0]}] {name}?"
                    yield f"{path}: there is no option {name} in [{section}]{hint}"


def _unknown_in_environment(known: dict[str, set[str]]) -> Iterator[str]:
    names = {_variable(group, name): name for group, members in known.items() for name in members}
    prefixes = tuple(f"OS_{group.upper()}__" for group in known)
    for name in sorted(os.environ):
        if name.startswith(prefixes) and name not in names:
            yield f"environment: {name} is no option{_meant(name, names)}"


def _meant(name: str, candidates: Iterable[str]) -> str:
    close = texts.closest(name, candidates)
    return f"; did you mean {close}?" if close else ""
