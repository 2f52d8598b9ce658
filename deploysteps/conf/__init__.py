"""Configuration: every option, with help, bounds and a check at start.

Values come, the first that is set wins, from ``OS_<GROUP>__<OPTION>`` in the
environment (``OS_API__PORT=8000``), then from the configuration file, then
from the default.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from oslo_config import cfg
from oslo_log import log
from oslo_policy import opts as policy_options

from deploysteps import exceptions
from deploysteps.conf import (
    agent,
    api,
    conductor,
    database,
    default,
    events,
    fake,
    proxy,
    webhooks,
)
from deploysteps.conf.checks import check, problems, unknown

__all__ = [
    "CONF",
    "check",
    "default_files",
    "list_opts",
    "problems",
    "register",
    "setup",
    "unknown",
]

CONF = cfg.ConfigOpts()
"""The options of this process; :func:`setup` fills them."""

DEFAULT_FILES = ("deploysteps.conf", "/etc/deploysteps/deploysteps.conf")
"""Where the configuration is looked for when no file is named; the first wins."""

LOG_LEVELS = [
    f"{library}=WARNING"
    for library in (
        "alembic",
        "cheroot",
        "futurist",
        "oslo_db",
        "requests",
        "sqlalchemy",
        "stevedore",
        "urllib3",
    )
]
"""Libraries are heard when something is wrong, also with ``debug`` on."""

_MODULES = (default, api, agent, conductor, database, events, fake, proxy, webhooks)


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Return every option by group, for the sample file and the checks."""
    return [(module.GROUP, module.OPTS) for module in _MODULES]


def register(conf: cfg.ConfigOpts) -> None:
    """Make every option of the package, and those of logging, known to ``conf``."""
    for group, options in list_opts():
        if group.name == "DEFAULT":
            conf.register_opts(options)
        else:
            # A copy: oslo.config keeps values in the group, and two ConfigOpts
            # that register the same one would share their overrides.
            conf.register_group(cfg.OptGroup(group.name, title=group.title, help=group.help))
            conf.register_opts(options, group=group.name)
    log.register_options(conf)
    policy_options.set_defaults(conf, policy_file="policy.yaml")
    conf.set_default("use_stderr", True)
    conf.set_default("default_log_levels", LOG_LEVELS)


def default_files() -> list[str]:
    """Return the first configuration file that exists, as a list of one or none."""
    return [name for name in DEFAULT_FILES if os.path.isfile(name)][:1]


def setup(
    args: Sequence[str] | None = None,
    config_files: Sequence[str] | None = None,
    conf: cfg.ConfigOpts = CONF,
) -> cfg.ConfigOpts:
    """Read the configuration; values are checked by :func:`check`.

    :param args: command-line arguments in oslo.config's own form, e.g.
        ``["--debug"]``; none by default, never ``sys.argv``.
    :param config_files: files to read, the last wins; see :data:`DEFAULT_FILES`.
    :returns: ``conf``.
    :raises ConfigurationError: when a file is missing, unreadable or no
        configuration file.
    """
    try:
        conf(
            args=list(args or ()),
            project="deploysteps",
            default_config_files=list(config_files or default_files()),
            default_config_dirs=[],
            use_env=True,
        )
    except cfg.ConfigFilesNotFoundError as exc:
        raise exceptions.ConfigurationError(
            f"no configuration file {', '.join(exc.config_files)}; "
            "`deploysteps config sample` prints one"
        ) from exc
    except cfg.Error as exc:
        raise exceptions.ConfigurationError(f"the configuration cannot be read: {exc}") from exc
    return conf


register(CONF)
