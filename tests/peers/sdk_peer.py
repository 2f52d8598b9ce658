"""What openstacksdk does with a service, one function per story; runs in the clients' environment.

usage: sdk_peer.py ENDPOINT STORY
"""

import sys

import openstack
from openstack import exceptions

STORIES = {}
STEPS = [
    {
        "interface": "bios",
        "step": "apply_configuration",
        "args": {"settings": [{"name": "a", "value": "b"}]},
        "priority": 150,
    }
]


def story(function):
    STORIES[function.__name__] = function
    return function


def refused(kind, call, *arguments, **more):
    """Return the exception of a call that has to fail."""
    try:
        call(*arguments, **more)
    except kind as exc:
        return exc
    raise AssertionError(f"{call} was not refused")


@story
def life(bm):
    """Create, wait, validate, deploy, rebuild, undeploy, delete."""
    node = bm.create_node(
        name="life", driver="fake-hardware", properties={"cpus": 1}, driver_info={"B1": 1}
    )
    assert node.provision_state == "enroll" and node.properties == {"cpus": 1}
    node = bm.set_node_provision_state(node, "manage", wait=True, timeout=60)
    assert node.provision_state == "manageable"
    node = bm.set_node_provision_state(node, "provide", wait=True, timeout=60)
    assert node.provision_state == "available" and node.is_maintenance is False
    found = bm.validate_node(node)
    assert found["deploy"].result is True and found["boot"].result is True
    bm.validate_node(node, required=("boot", "deploy", "power", "management"))
    node = bm.set_node_provision_state(
        node,
        "active",
        config_drive={"meta_data": {"hostname": "life"}},
        deploy_steps=STEPS,
        wait=True,
        timeout=60,
    )
    assert node.provision_state == "active" and node.deploy_step in (None, {})
    node = bm.set_node_provision_state(node, "rebuild", wait=True, timeout=60)
    (waited,) = bm.wait_for_nodes_provision_state([node], "active", timeout=30)
    assert waited.id == node.id
    node = bm.set_node_provision_state(node, "deleted", wait=True, timeout=60)
    assert node.provision_state == "available"
    bm.delete_node(node)
    refused(exceptions.NotFoundException, bm.get_node, node.id)


@story
def states_at_creation(bm):
    """``available`` is asked for at 1.10, ``manageable`` is reached by a verb."""
    assert bm.create_node(name="c1", driver="fake-hardware").provision_state == "enroll"
    made = bm.create_node(name="c2", driver="fake-hardware", provision_state="manageable")
    assert made.provision_state == "manageable"
    made = bm.create_node(name="c3", driver="fake-hardware", provision_state="available")
    assert made.provision_state == "available"


@story
def finding(bm):
    """By name, by UUID, and what is not there."""
    node = bm.create_node(name="found", driver="fake-hardware", resource_class="found")
    assert bm.find_node("found").id == bm.find_node(node.id).id == node.id
    assert bm.find_node("nope") is None
    refused(exceptions.NotFoundException, bm.find_node, "nope", ignore_missing=False)
    assert "nope" in str(refused(exceptions.NotFoundException, bm.get_node, "nope"))
    assert refused(exceptions.NotFoundException, bm.delete_node, "nope", ignore_missing=False)
    few = list(bm.nodes(resource_class="found"))
    many = list(bm.nodes(details=True, resource_class="found", sort_key="name", limit=1))
    assert [one.name for one in few] == [one.name for one in many] == ["found"]
    assert list(bm.nodes(provision_state="enroll", driver="fake-hardware", fields=["name"]))
    assert bm.get_node("found", fields=["provision_state", "name"]).provision_state == "enroll"


@story
def changes(bm):
    """Updates, patches, maintenance, traits, power and boot device."""
    node = bm.create_node(name="changed", driver="fake-hardware")
    assert bm.update_node(node, extra={"x": 1}).extra == {"x": 1}
    patched = bm.patch_node(node, [{"op": "add", "path": "/extra/y", "value": 2}])
    assert patched.extra == {"x": 1, "y": 2}
    assert bm.set_node_maintenance(node, "because").maintenance_reason == "because"
    assert bm.unset_node_maintenance(node).is_maintenance is False
    bm.add_node_trait(node, "CUSTOM_A")
    bm.set_node_traits(node, ["CUSTOM_A", "CUSTOM_B"])
    assert sorted(bm.get_node(node).traits) == ["CUSTOM_A", "CUSTOM_B"]
    bm.remove_node_trait(node, "CUSTOM_A")
    assert bm.get_node(node).traits == ["CUSTOM_B"]
    bm.set_node_provision_state(node, "manage", wait=True, timeout=60)
    bm.set_node_power_state(node, "power on", wait=True, timeout=60)
    assert bm.get_node(node).power_state == "power on"
    bm.set_node_power_state(node, "soft power off", wait=True, timeout=60)
    assert bm.get_node(node).power_state == "power off"


@story
def boot_device(bm):
    node = bm.create_node(name="booted", driver="fake-hardware")
    bm.set_node_boot_device(node, "pxe", persistent=True)
    found = bm.get_node_boot_device(node)
    assert (found["boot_device"], found["persistent"]) == ("pxe", True)
    assert "pxe" in bm.get_node_supported_boot_devices(node)["supported_boot_devices"]


@story
def failures(bm):
    """A failing run, a wrong step, a wrong verb, a wait for what will not come."""
    node = bm.create_node(
        name="failing", driver="fake-hardware", driver_info={"fake_fail": ["deploy.deploy"]}
    )
    bm.set_node_provision_state(node, "manage", wait=True, timeout=60)
    bm.set_node_provision_state(node, "provide", wait=True, timeout=60)
    told = refused(
        exceptions.ResourceFailure,
        bm.set_node_provision_state,
        node,
        "active",
        wait=True,
        timeout=60,
    )
    assert "deploy failed" in str(told) and "deploy.deploy" in str(told), told
    refused(exceptions.BadRequestException, bm.set_node_provision_state, node, "provide")
    wrong = [{**STEPS[0], "step": "nope"}]
    told = refused(
        exceptions.BadRequestException,
        bm.set_node_provision_state,
        node,
        "active",
        deploy_steps=wrong,
    )
    assert "nope" in str(told), told
    bm.set_node_provision_state(node, "deleted", wait=True, timeout=60)


@story
def ports(bm):
    node = bm.create_node(name="ported", driver="fake-hardware")
    made = bm.create_port(node_id=node.id, address="52:54:00:00:99:01")
    assert made.is_pxe_enabled is True and made.node_id == node.id
    assert [one.id for one in bm.ports(details=True, node_id=node.id)] == [made.id]
    assert [one.id for one in bm.ports(address="52:54:00:00:99:01")] == [made.id]
    assert bm.update_port(made, extra={"a": 1}).extra == {"a": 1}
    assert bm.find_port(made.id).id == made.id
    bm.delete_port(made)
    refused(exceptions.NotFoundException, bm.get_port, made.id)


@story
def templates(bm):
    made = bm.create_deploy_template(name="CUSTOM_T", steps=STEPS)
    assert made.steps == STEPS
    assert [one.name for one in bm.deploy_templates(details=True)] == ["CUSTOM_T"]
    assert bm.update_deploy_template(made, extra={"a": 1}).extra == {"a": 1}
    bm.delete_deploy_template(made)
    assert list(bm.deploy_templates()) == []


@story
def drivers_and_conductors(bm):
    assert "fake-hardware" in [driver.name for driver in bm.drivers()]
    assert bm.get_driver("fake-hardware").default_deploy_interface == "fake"
    (conductor,) = bm.conductors()
    assert conductor.alive is True
    assert "fake-hardware" in bm.get_conductor(conductor.hostname).drivers


@story
def machine(bm):
    """Inspection, inventory, virtual interfaces."""
    node = bm.create_node(name="inspected", driver="fake-hardware")
    refused(exceptions.NotFoundException, bm.get_node_inventory, node)
    bm.set_node_provision_state(node, "manage", wait=True, timeout=60)
    node = bm.set_node_provision_state(node, "inspect", wait=True, timeout=60)
    assert node.properties["cpu_arch"] == "x86_64"
    assert "cpu" in bm.get_node_inventory(node)["inventory"]
    vif = "33333333-3333-3333-3333-333333333333"
    bm.attach_vif_to_node(node, vif)
    assert isinstance(bm.list_node_vifs(node), list)
    assert bm.detach_vif_from_node(node, vif) is True


@story
def allocations(bm):
    node = bm.create_node(name="wanted", driver="fake-hardware", resource_class="sdk")
    bm.set_node_provision_state(node, "manage", wait=True, timeout=60)
    bm.set_node_provision_state(node, "provide", wait=True, timeout=60)
    made = bm.create_allocation(name="a1", resource_class="sdk")
    made = bm.wait_for_allocation(made, timeout=30)
    assert (made.state, made.node_id) == ("active", node.id)
    assert bm.get_node(node).allocation_id == made.id
    bm.delete_allocation(made)
    assert bm.get_node(node).allocation_id is None
    made = bm.create_allocation(name="a2", resource_class="nowhere")
    refused(exceptions.ResourceFailure, bm.wait_for_allocation, made, timeout=30)


if __name__ == "__main__":
    connection = openstack.connection.Connection(auth_type="none", endpoint=sys.argv[1])
    STORIES[sys.argv[2]](connection.baremetal)
