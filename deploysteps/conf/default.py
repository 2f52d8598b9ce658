"""``[DEFAULT]``: who this process is and what it enables."""

from __future__ import annotations

import socket

from oslo_config import cfg, types

from deploysteps import releases, steps

GROUP = cfg.OptGroup("DEFAULT")


def _interface_options(kind: str) -> tuple[cfg.Opt, cfg.Opt]:
    return (
        cfg.ListOpt(
            f"enabled_{kind}_interfaces",
            help=(
                f"The {kind} interfaces that nodes may use, by entry-point name. Unset: all "
                "that the enabled hardware types support. A name that is not installed, or "
                "fails to import, stops the start unless skip_broken_drivers is set."
            ),
        ),
        cfg.StrOpt(
            f"default_{kind}_interface",
            help=(
                f"The {kind} interface of a node that names none. Unset: the first that the "
                "node's hardware type supports and that is enabled."
            ),
        ),
    )


OPTS: list[cfg.Opt] = [
    cfg.Opt(
        "host",
        type=types.String(regex=r"^[^\s/]+$", max_length=255),
        default=socket.gethostname(),
        sample_default="<the machine's name>",  # refused where it is taken for a value
        help=(
            "The name of this conductor. Unset: the machine's host name. It must be unique "
            "among the processes that share a database, and stay the same over restarts: "
            "after a crash a conductor of the same name knows which locks were its own."
        ),
    ),
    cfg.StrOpt(
        "state_path",
        default="var",
        help="The folder for files that must survive a restart; made when it is missing.",
    ),
    cfg.StrOpt(
        "auth_strategy",
        default="noauth",
        choices=[
            ("noauth", "no authentication: everyone who reaches the API may do all"),
            ("http_basic", "users and passwords of http_basic_auth_user_file"),
            ("keystone", "tokens of OpenStack's Identity service; needs deploysteps[keystone]"),
        ],
        help="How the API knows its callers. What they may do then, [oslo_policy] says.",
    ),
    cfg.StrOpt(
        "http_basic_auth_user_file",
        default="/etc/ironic/htpasswd",
        help=(
            "With auth_strategy = http_basic: the file of users, a line for each, NAME:HASH, as "
            "`htpasswd -nbB NAME PASSWORD` prints it; only bcrypt hashes are taken. It is read "
            "again when it changes. What users may do: [api] http_basic_roles."
        ),
    ),
    cfg.Opt(
        "enabled_hardware_types",
        type=types.List(types.String(regex=r"^\S+$")),
        default=["fake-hardware"],
        help="The hardware types that nodes may have as their driver, by entry-point name.",
    ),
    cfg.BoolOpt(
        "skip_broken_drivers",
        default=False,
        help=(
            "Start without an enabled hardware type or interface that cannot be loaded, and "
            "log which and why. Otherwise it stops the start."
        ),
    ),
    cfg.StrOpt(
        "pin_release_version",
        choices=list(releases.RELEASES),
        help=(
            "During a rolling upgrade: the oldest release among the processes that share the "
            "database. New work is begun as that release would, and the API speaks no newer "
            "version; work that was begun goes on however it was begun. Unset: the newest."
        ),
    ),
    *(option for kind in steps.INTERFACE_TYPES for option in _interface_options(kind)),
]
