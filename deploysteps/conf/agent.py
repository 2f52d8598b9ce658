"""``[agent]``: the agent on the machine."""

from __future__ import annotations

from oslo_config import cfg, types

from deploysteps.conf.types import Network

GROUP = cfg.OptGroup("agent", title="Agent", help="The agent that runs on the machine.")

OPTS: list[cfg.Opt] = [
    cfg.Opt(
        "callback_networks",
        type=types.List(Network()),
        default=[],
        help=(
            "Networks (CIDR) that an agent's callback address must be in; a heartbeat with "
            "another one is refused. Empty: any."
        ),
    ),
]
