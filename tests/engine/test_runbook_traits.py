"""A runbook is for nodes with the trait of its name, or with one of its traits."""

from __future__ import annotations

import pytest

from deploysteps import exceptions, states
from deploysteps.db import runbooks, traits
from deploysteps.drivers import base
from tests import support


class Vendor(support.Vendor):
    """A step for a runbook."""

    @base.clean_step(0, abortable=True)
    def tidy(self, task):
        return None


@pytest.mark.parametrize(
    ("has", "fits"),
    [([], False), (["CUSTOM_R"], True), (["CUSTOM_B"], True), (["CUSTOM_X"], False)],
)
def test_which_nodes_a_runbook_is_for(sqlite, start, has, fits):
    service = start(sqlite, vendor=Vendor)
    step = {"interface": "vendor", "step": "tidy", "args": {}, "order": 1}
    runbooks.insert(sqlite, {"name": "CUSTOM_R", "steps": [step]})
    added = ["CUSTOM_A", "CUSTOM_B"]
    assert service.manager.update_runbook_traits(None, "CUSTOM_R", add=added) == added
    node = support.enrolled(service, provision_state=states.MANAGEABLE)
    traits.replace(sqlite, node.id, has)
    if fits:
        service.manager.do_node_clean(None, node.uuid, runbook="CUSTOM_R")
        support.settle(sqlite, node.id, states.MANAGEABLE)
        assert support.last_run(sqlite, node).outcome == "success"
    else:
        with pytest.raises(exceptions.InvalidParameterValue, match="is not for this node"):
            service.manager.do_node_clean(None, node.uuid, runbook="CUSTOM_R")
