"""What many processes, clients and clocks at once have brought to light, one at a time."""

from __future__ import annotations

import pytest

from deploysteps import exceptions, states
from deploysteps.conductor import beats
from deploysteps.db import nodes
from deploysteps.drivers import base
from tests import support


class WaitsForAgent(support.Vendor):
    """One step, which the machine's agent ends."""

    @base.deploy_step(priority=50)
    def first(self, task):
        return states.DEPLOYWAIT


def test_a_beat_whose_token_was_rotated_since_it_was_checked_ends_no_wait(
    database, start, monkeypatch
):
    """F27, F29: its machine was switched off while the conductor that checked it was frozen."""
    service = start(database, vendor=WaitsForAgent)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(database, node.uuid, states.DEPLOYWAIT)
    token = support.token(service, node)
    check = beats._check_token

    def frozen(seen, given):
        check(seen, given)
        service.manager.change_node_power_state(None, node.uuid, states.POWER_OFF)
        support.until(lambda: nodes.get(database, node.uuid).power_state == states.POWER_OFF)
        support.settle(database, node.uuid, states.DEPLOYWAIT)

    monkeypatch.setattr(beats, "_check_token", frozen)
    with pytest.raises(exceptions.NodeLocked):
        service.manager.heartbeat(None, node.uuid, support.CALLBACK, agent_token=token)
    now = support.settle(database, node.uuid, states.DEPLOYWAIT)
    assert now.agent_url_column is None and now.agent_secret_token is None
    assert support.told(database, node)[-1] == ("vendor.first", 1, "waiting", None)
