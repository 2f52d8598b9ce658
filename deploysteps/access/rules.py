"""The policy rules, with the names and the meaning that they have in the field.

A rule is a check of oslo.policy. ``node.owner`` and ``node.lessee`` are the
projects of the node that something is to be done with, ``runbook.owner`` and
``allocation.owner`` those of these. Operators change rules in the policy file
(``[oslo_policy] policy_file``); ``deploysteps policy sample`` prints them all.
"""

from __future__ import annotations

from collections.abc import Iterator

from oslo_policy import policy

STEP = "baremetal:step:execute"
"""Prefix of the rules of steps: ``baremetal:step:execute:<interface>.<step>``. The rule of this
name itself is for steps that have none."""

OPEN = frozenset(
    {
        "baremetal:driver:ipa_lookup",
        "baremetal:node:ipa_heartbeat",
        "baremetal:driver:ipa_continue_inspection",
        "baremetal:metrics:get",
    }
)
"""Rules that, when they let everybody pass (``@``), do not even ask who it is.

Agents have no password, they have a token; and a monitoring system may have neither. Any
other rule is asked about callers that are known."""

EVERYBODY, NOBODY = "@", "!"

OF_CALLERS = (
    "user_id",
    "user_domain_id",
    "project_id",
    "project_name",
    "project_domain_id",
    "domain_id",
    "system_scope",
)
"""What checks may compare of a caller, beside his roles."""


def _any(*checks: str) -> str:
    return " or ".join(f"({check})" for check in checks)


def _system(role: str) -> str:
    return f"role:{role} and system_scope:all"


def _of(what: str, *roles: str) -> tuple[str, ...]:
    return tuple(f"role:{role} and project_id:%({what})s" for role in roles)


_OWNER, _LESSEE = "node.owner", "node.lessee"
_SERVICES = (_system("service"), *_of(_OWNER, "service"))
"""Other services, which have a role of their own."""

ADMIN = _any(_system("admin"))
MEMBER = _any(_system("member"))
READER = _any(_system("reader"), _system("service"))
ANY_READER = _any("role:reader", "role:service")

_NODE_READER = _any(_system("reader"), *_of(_OWNER, "reader"), *_of(_LESSEE, "reader"), *_SERVICES)
_NODE_MEMBER = _any(_system("member"), *_of(_OWNER, "member"), *_of(_LESSEE, "member"), *_SERVICES)
_OWNER_READER = _any(_system("reader"), *_of(_OWNER, "reader"), *_SERVICES)
_OWNER_MEMBER = _any(_system("member"), *_of(_OWNER, "member"), *_SERVICES)
_OWNER_ADMIN = _any(_system("member"), *_of(_OWNER, "admin", "manager"), *_SERVICES)
_ONLY_ADMINS = _any(_system("admin"), *_of(_OWNER, "admin", "manager"), *_SERVICES)
_OPERATOR = _any(
    _system("member"), *_of(_OWNER, "member"), *_of(_LESSEE, "admin", "manager"), *_SERVICES
)
"""Who may set a node in motion: members of the owner, and admins of the lessee."""

_RUNBOOK_READER = _any(
    _system("reader"), _system("service"), *_of("runbook.owner", "reader"), "role:service"
)
_RUNBOOK_ADMIN = _any(_system("member"), *_of("runbook.owner", "manager", "admin"), "role:service")
_ALLOCATION_READER = _any(READER, *_of("allocation.owner", "reader"))
_ALLOCATION_MEMBER = _any(MEMBER, *_of("allocation.owner", "member"))

# Name after "baremetal:" -> (check, what it is about).
_RULES: dict[str, tuple[str, str]] = {
    # --- nodes
    "node:create": (_any(_system("admin"), _system("service")), "Create nodes."),
    "node:create:self_owned_node": (
        _any("role:admin", "role:service"),
        "Create nodes that belong to the caller's own project.",
    ),
    "node:list": (ANY_READER, "List the nodes of the caller's own project, owned or leased."),
    "node:list_all": (READER, "List all nodes."),
    "node:get": (_NODE_READER, "See a node. Who may not, is told that there is none."),
    "node:get:filter_threshold": (
        READER,
        "See all fields of nodes; for others, the four rules that follow are asked.",
    ),
    "node:get:last_error": (_OWNER_READER, "See last_error of a node."),
    "node:get:reservation": (_OWNER_READER, "See reservation of a node."),
    "node:get:driver_internal_info": (_OWNER_READER, "See driver_internal_info of a node."),
    "node:get:driver_info": (_OWNER_READER, "See driver_info of a node."),
    "node:update": (_NODE_MEMBER, "Change fields of a node that have no rule of their own."),
    "node:update_extra": (_NODE_MEMBER, "Change extra."),
    "node:update_instance_info": (_OPERATOR, "Change instance_info and instance_name."),
    "node:update:driver_info": (_OWNER_MEMBER, "Change driver_info."),
    "node:update:properties": (_OWNER_MEMBER, "Change properties."),
    "node:update:chassis_uuid": (ADMIN, "Change chassis_uuid."),
    "node:update:instance_uuid": (_OWNER_MEMBER, "Change instance_uuid."),
    "node:update:lessee": (_OWNER_MEMBER, "Change lessee."),
    "node:update:owner": (MEMBER, "Change owner."),
    "node:update_owner_provisioned": (ADMIN, "Change owner while the node is active."),
    "node:update:driver_interfaces": (_OWNER_ADMIN, "Change the driver and its interfaces."),
    "node:update:network_data": (_OWNER_MEMBER, "Change network_data."),
    "node:update:conductor_group": (MEMBER, "Change conductor_group."),
    "node:update:name": (_OWNER_MEMBER, "Change name."),
    "node:update:retired": (_OWNER_MEMBER, "Change retired and retired_reason."),
    "node:update:shard": (ADMIN, "Change shard."),
    "node:update:parent_node": (MEMBER, "Change parent_node."),
    "node:update:disable_power_off": (ADMIN, "Change disable_power_off."),
    "node:disable_cleaning": (ADMIN, "Set automated_clean of a node to false."),
    "node:delete": (ADMIN, "Delete nodes."),
    "node:delete:self_owned_node": (
        _any(*_of(_OWNER, "admin")),
        "Delete nodes that belong to the caller's own project.",
    ),
    "node:validate": (_OPERATOR, "Have the interfaces of a node checked."),
    "node:set_maintenance": (_OPERATOR, "Set a node to maintenance."),
    "node:clear_maintenance": (_OPERATOR, "Take a node out of maintenance."),
    "node:get_boot_device": (_OWNER_ADMIN, "See the boot device of a node."),
    "node:set_boot_device": (_OWNER_ADMIN, "Change the boot device of a node."),
    "node:get_indicator_state": (_NODE_READER, "See the indicators of a node."),
    "node:set_indicator_state": (_OWNER_MEMBER, "Change the indicators of a node."),
    "node:inject_nmi": (_OWNER_ADMIN, "Send a node an NMI."),
    "node:get_states": (_NODE_READER, "See the states of a node."),
    "node:set_power_state": (_NODE_MEMBER, "Change the power state of a node."),
    "node:set_boot_mode": (_NODE_MEMBER, "Change the boot mode of a node."),
    "node:set_secure_boot": (_NODE_MEMBER, "Switch secure boot of a node on or off."),
    "node:set_provision_state": (_OPERATOR, "Change the provision state of a node."),
    "node:set_provision_state:clean_steps": (_OPERATOR, "Clean a node by given steps."),
    "node:set_provision_state:service_steps": (_OPERATOR, "Service a node by given steps."),
    "node:set_raid_state": (_OWNER_MEMBER, "Change the wanted RAID configuration of a node."),
    "node:get_console": (_OWNER_MEMBER, "See how the console of a node is reached."),
    "node:set_console_state": (_OWNER_MEMBER, "Switch the console of a node on or off."),
    "node:vif:list": (_NODE_READER, "List the virtual interfaces of a node."),
    "node:vif:attach": (_OPERATOR, "Attach a virtual interface to a node."),
    "node:vif:detach": (_OPERATOR, "Detach a virtual interface from a node."),
    "node:traits:list": (_NODE_READER, "List the traits of a node."),
    "node:traits:set": (_OWNER_ADMIN, "Add traits to a node, or replace them."),
    "node:traits:delete": (_OWNER_ADMIN, "Remove traits from a node."),
    "node:bios:get": (_NODE_READER, "See the BIOS settings of a node."),
    "node:firmware:get": (_NODE_READER, "See the firmware of a node."),
    "node:history:get": (_OWNER_READER, "See the history of a node."),
    "node:inventory:get": (_OWNER_READER, "See the inventory of a node."),
    "node:vmedia:get": (_NODE_READER, "See the virtual media of a node."),
    "node:vmedia:attach": (_NODE_MEMBER, "Attach virtual media to a node."),
    "node:vmedia:detach": (_NODE_MEMBER, "Detach virtual media from a node."),
    "node:vendor_passthru": (ADMIN, "Use what a node's driver has of its own."),
    "node:ipa_heartbeat": (EVERYBODY, "Send heartbeats. Agents prove who they are by a token."),
    # --- nodes: ours
    "node:steps:list": (_NODE_READER, "See the steps that a node offers. Not in the field."),
    "node:plan:get": (_OPERATOR, "See what a run would do. Not in the field."),
    "node:runs:list": (
        _any(_OWNER_READER, *_of(_LESSEE, "admin", "manager")),
        "See the runs of a node. Not in the field.",
    ),
    "node:lock:delete": (ADMIN, "Break the lock of a node. Not in the field."),
    # --- what belongs to nodes
    "port:get": (_NODE_READER, "See ports of a node."),
    "port:list": (ANY_READER, "List the ports of nodes of the caller's own project."),
    "port:list_all": (READER, "List all ports."),
    "port:create": (_ONLY_ADMINS, "Create ports."),
    "port:update": (_OWNER_ADMIN, "Change ports."),
    "port:delete": (_ONLY_ADMINS, "Delete ports."),
    "portgroup:get": (_NODE_READER, "See port groups of a node."),
    "portgroup:list": (ANY_READER, "List the port groups of nodes of the caller's own project."),
    "portgroup:list_all": (READER, "List all port groups."),
    "portgroup:create": (_ONLY_ADMINS, "Create port groups."),
    "portgroup:update": (_OWNER_ADMIN, "Change port groups."),
    "portgroup:delete": (_ONLY_ADMINS, "Delete port groups."),
    "allocation:get": (_ALLOCATION_READER, "See an allocation."),
    "allocation:list": (ANY_READER, "List the allocations of the caller's own project."),
    "allocation:list_all": (READER, "List all allocations."),
    "allocation:create": (_any(MEMBER, "role:member"), "Create allocations of the own project."),
    "allocation:create_restricted": (MEMBER, "Create allocations of any project."),
    "allocation:update": (_ALLOCATION_MEMBER, "Change an allocation."),
    "allocation:delete": (_ALLOCATION_MEMBER, "Delete an allocation."),
    # --- what belongs to the service
    "chassis:get": (READER, "See chassis."),
    "chassis:create": (ADMIN, "Create chassis."),
    "chassis:update": (MEMBER, "Change chassis."),
    "chassis:delete": (ADMIN, "Delete chassis."),
    "shards:get": (READER, "See shards."),
    "events:post": (_any(ADMIN, _system("service")), "Tell what a network service has done."),
    "driver:get": (READER, "See hardware types."),
    "driver:get_properties": (READER, "See what hardware types read of driver_info."),
    "driver:get_raid_logical_disk_properties": (READER, "See what hardware types take as RAID."),
    "driver:vendor_passthru": (ADMIN, "Use what a hardware type has of its own."),
    "driver:ipa_lookup": (EVERYBODY, "Find the node that an agent runs on."),
    "driver:ipa_continue_inspection": (EVERYBODY, "Send what an agent found out."),
    "conductor:get": (READER, "See conductors."),
    "deploy_template:get": (READER, "See deploy templates."),
    "deploy_template:create": (ADMIN, "Create deploy templates."),
    "deploy_template:update": (ADMIN, "Change deploy templates."),
    "deploy_template:delete": (ADMIN, "Delete deploy templates."),
    "runbook:get": (_RUNBOOK_READER, "See a runbook; public ones are seen by all readers."),
    "runbook:list": (ANY_READER, "List the runbooks of the caller's own project, and public ones."),
    "runbook:list_all": (READER, "List all runbooks."),
    "runbook:create": (
        _any(_system("member"), "role:manager", "role:admin", "role:service"),
        "Create runbooks; those of a project belong to it.",
    ),
    "runbook:update": (_RUNBOOK_ADMIN, "Change a runbook."),
    "runbook:update:owner": (MEMBER, "Change the owner of a runbook."),
    "runbook:update:public": (MEMBER, "Make a runbook public, or not."),
    "runbook:delete": (_RUNBOOK_ADMIN, "Delete a runbook."),
    "runbook:use": (_RUNBOOK_ADMIN, "Use a runbook; public ones may be used by all who see them."),
    "event:stream": (
        ANY_READER,
        "Follow the events of the nodes that the caller sees in lists. Not in the field.",
    ),
    "metrics:get": (READER, 'See metrics; "@" opens them to callers without a password, too.'),
    "step:execute": (
        EVERYBODY,
        "Run a step on request, in a runbook or in a deploy template, that has no rule of its own. "
        f'A rule of a step is called "{STEP}:<interface>.<step>". Asked of those that may change '
        "the provision state. Not in the field under this name; those of single steps are.",
    ),
}


def _by_field(prefix: str, *others: str) -> dict[str, str]:
    """Return field -> the rule that is called by it; ``others`` are of no field."""
    return {
        name.removeprefix(prefix): f"baremetal:{name}"
        for name in _RULES
        if name.startswith(prefix) and name not in others
    }


NODE_FIELDS: dict[str, str] = {
    "instance_info": "baremetal:node:update_instance_info",
    "instance_name": "baremetal:node:update_instance_info",
    "extra": "baremetal:node:update_extra",
    "driver": "baremetal:node:update:driver_interfaces",
    "retired_reason": "baremetal:node:update:retired",
    **_by_field("node:update:", "node:update:driver_interfaces"),
}
"""Field of a node -> the rule of changing it; those of interfaces have that of the driver."""

NODE_SEEN_BY: dict[str, str] = _by_field("node:get:", "node:get:filter_threshold")
"""Field of a node -> the rule of seeing it, for who does not pass the threshold."""

RUNBOOK_FIELDS: dict[str, str] = _by_field("runbook:update:")
"""Field of a runbook -> the rule of changing it."""


def of_step(interface: object, step: object) -> str:
    """Return the name of the rule of a step."""
    return f"{STEP}:{interface}.{step}"


class _Rule(policy.RuleDefault):
    """A rule that nothing changes, so that one object does for all who would copy it."""

    def __deepcopy__(self, memo: object) -> _Rule:
        return self


def list_rules() -> Iterator[policy.RuleDefault]:
    """Return every rule with its default: the entry point ``oslo.policy.policies``."""
    yield _Rule(
        "show_password",
        NOBODY,
        description="Show secrets in driver_info of nodes, which are masked otherwise. A risk.",
    )
    yield _Rule(
        "show_instance_secrets",
        NOBODY,
        description="Show secrets in instance_info of nodes, which are masked otherwise. A risk.",
    )
    for name, (check, about) in _RULES.items():
        yield _Rule(
            f"baremetal:{name}", check, description=about, scope_types=["system", "project"]
        )
