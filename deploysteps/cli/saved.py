"""``deploysteps template`` and ``deploysteps runbook``: lists of steps that are kept."""

from __future__ import annotations

import click

from deploysteps.cli import traits
from deploysteps.cli.collection import Kind, group
from deploysteps.cli.params import EXTRA, Decorator, step_list, texts

_FROM = " @FILE reads the list from a file, - from stdin."
_DELETE = "Forget {}s; runs that use one go on."


def _steps(told: str, *, required: bool) -> tuple[Decorator]:
    shown = told if required else f"{told} It replaces all steps."
    option = click.option(
        "--steps", type=step_list, metavar="JSON|@FILE|-", help=shown, required=required
    )
    return (option,)


_OF_TEMPLATE = (
    "The steps: a JSON list of objects with interface, step, priority and args, all four "
    "required, each step once. Priority 0 disables a step." + _FROM
)
_OF_RUNBOOK = (
    "The steps: a JSON list of objects with interface, step, order and args, all four required; "
    "they run by order." + _FROM
)

TEMPLATE = Kind(
    place="deploy_templates",
    name="template",
    told="Keep deploy steps under the name of a trait.",
    create="Keep deploy steps for instances that ask for the trait NAME, such as CUSTOM_RAID.",
    delete=_DELETE.format("template"),
    first="name",
    new=_steps(_OF_TEMPLATE, required=True),
    changed=_steps(_OF_TEMPLATE, required=False),
    options=(EXTRA,),
    listed=("uuid", "name"),
)
RUNBOOK = Kind(
    place="runbooks",
    name="runbook",
    told="Keep lists of steps for cleaning and servicing.",
    create="Keep steps for cleaning or servicing nodes that have the trait NAME, such as "
    "CUSTOM_WIPE.",
    delete=_DELETE.format("runbook"),
    first="name",
    new=_steps(_OF_RUNBOOK, required=True),
    changed=_steps(_OF_RUNBOOK, required=False),
    options=(
        *texts((("description", "A note."), ("owner", "Whose it is."))),
        click.option("--public/--no-public", default=None, help="Whether others may use it."),
        click.option(
            "--disable-ramdisk/--no-disable-ramdisk",
            default=None,
            help="Whether it runs without the machine's agent.",
        ),
        EXTRA,
    ),
    listed=("uuid", "name", "owner", "public", "description"),
)

template = group(TEMPLATE)
runbook = group(RUNBOOK)
runbook.add_command(traits.group("runbook", RUNBOOK.path))
