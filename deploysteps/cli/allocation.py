"""``deploysteps allocation``: ask for a node by what it is, not by its name."""

from __future__ import annotations

import click

from deploysteps.cli.collection import Kind, group
from deploysteps.cli.params import EXTRA, texts

_OWNER = ("owner", "The project whose it is.")

ALLOCATION = Kind(
    place="allocations",
    name="allocation",
    told="Ask for available nodes by resource class and traits.",
    create="Ask for a node; `deploysteps allocation show` tells which one it is.",
    delete="Give up allocations, and free their nodes.",
    listed=("uuid", "name", "resource_class", "state", "node_uuid"),
    new=(
        *texts((("resource_class", "The class that the node must be of."), _OWNER)),
        click.option(
            "--trait", "traits", multiple=True, help="A trait that the node must have; several."
        ),
        click.option(
            "--candidate-node",
            "candidate_nodes",
            multiple=True,
            help="A node that may be taken, by uuid or name; several. Any, when none is named.",
        ),
        click.option("--node", help="A node that has its instance already, to allocate as it is."),
    ),
    options=(click.option("--name", help="A name for the allocation."), EXTRA),
    filters=texts(
        (
            ("node", "Only that of this node."),
            ("resource_class", "Only those of this class."),
            ("state", "Only those in this state: allocating, active or error."),
            _OWNER,
        )
    ),
)

allocation = group(ALLOCATION)
