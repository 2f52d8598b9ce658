"""The settings reference, from the options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from oslo_config import cfg

from deploysteps import conf


def of_group(name: str) -> str:
    """Return every option of a group."""
    groups = {group.name: (group, options) for group, options in conf.list_opts()}
    if name not in groups:
        raise ValueError(f"there is no group {name!r}; there are {', '.join(groups)}")
    _, options = groups[name]
    return "\n".join(line for option in options for line in _described(name, option))


def _described(group: str, option: cfg.Opt) -> Iterator[str]:
    yield f".. setting:: [{group}] {option.name}"
    yield ""
    yield f"   :Type: {_type(option)}"
    yield f"   :Default: {_default(option)}"
    yield f"   :Environment: ``OS_{group.upper()}__{option.name.upper()}``"
    yield ""
    yield f"   {_as_code(option.help)}"
    yield ""


def _type(option: cfg.Opt) -> str:
    kind: Any = option.type
    choices = getattr(kind, "choices", None)
    if choices:
        return "one of " + ", ".join(f"``{choice}``" for choice in choices)
    told = kind.type_name.removesuffix(" value")
    item = getattr(kind, "item_type", None)
    if item is not None:
        one = item.type_name.removesuffix(" value")
        many = one if "." in one else f"{one}es" if one.endswith("s") else f"{one}s"
        told = f"list of {many}"
    least, most = getattr(kind, "min", None), getattr(kind, "max", None)
    if least is not None and most is not None:
        told += f" from {least:.10g} to {most:.10g}"
    return told


def _default(option: cfg.Opt) -> str:
    default = option.sample_default if option.sample_default is not None else option.default
    if default is None:
        return "unset"
    if default in ([], ""):
        return "empty"
    if isinstance(default, list):
        return f"``{','.join(map(str, default))}``"
    if isinstance(default, bool):
        return f"``{str(default).lower()}``"
    return f"``{default}``" if not str(default).startswith("<") else str(default)


_CODE = re.compile(
    r"(<interface>\.<step>(?::<priority>)?|[a-z_]+\.[a-z_]+:\d+(?:,[a-z_]+\.[a-z_]+:\d+)*"
    r"|(?:sqlite|postgresql|mysql)[+:]\S+?(?=,? |\.? |$)|https?://[\w.:-]+\w)"
)


def _as_code(text: str | None) -> str:
    """Return an option's help with what looks like a value as code."""
    told = (text or "").replace("*", "\\*")
    return _CODE.sub(lambda found: f"``{found[0]}``", told)
