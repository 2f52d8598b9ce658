"""What an adversary found in declarations: marks that leak into a base, purposes of no use."""

from __future__ import annotations

import pytest

from deploysteps import exceptions
from deploysteps.drivers import base


class Erases(base.VendorInterface):
    """A clean step, for others to inherit."""

    get_properties = validate = lambda self, task=None: {}

    @base.clean_step(priority=10)
    def erase(self, task):
        return None


def priorities(flow, *classes):
    """Return what each class declares of ``erase``, None where it is no step."""
    found = [made().declaration(flow, "erase") for made in classes]
    return [one and one.priority for one in found]


def test_a_subclass_may_declare_an_inherited_method_anew():
    """F5: for itself and for what derives from it; its base keeps its own."""

    class Earlier(Erases):
        erase = base.clean_step(priority=99)(Erases.erase)

    class Under(Earlier):
        pass

    class Beside(Erases):
        pass

    assert priorities("clean", Erases, Earlier, Under, Beside) == [10, 99, 99, 10]


def test_a_step_of_another_flow_in_a_subclass_is_none_of_its_base():
    """F5: an erasing step of one driver does not become a deploy step of another."""

    class AtDeployment(Erases):
        erase = base.deploy_step(priority=50)(Erases.erase)

    class Beside(Erases):
        pass

    assert priorities("deploy", Erases, AtDeployment, Beside) == [None, 50, None]
    assert priorities("clean", Erases, AtDeployment, Beside) == [10, 10, 10]


@pytest.mark.parametrize("purpose", [5, "", "x" * 256], ids=["number", "empty", "long"])
def test_a_purpose_is_a_text_that_the_lock_can_hold(purpose):
    """F59: on every database; else the method could never be called."""
    with pytest.raises(exceptions.StepDeclarationError, match="purpose"):

        class Made(base.BaseInterface):
            interface_type = "raid"

            @base.node_periodic(spacing=60, purpose=purpose)
            def look(self, task, manager, context):
                return None
