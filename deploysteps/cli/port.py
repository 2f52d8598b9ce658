"""``deploysteps port`` and ``deploysteps portgroup``: the network of a machine."""

from __future__ import annotations

import click

from deploysteps.cli.collection import Kind, group
from deploysteps.cli.params import EXTRA, flags, members, texts

_OF_NODE = click.option("--node", required=True, help="The machine, by uuid or name.")
_FILTERS = (
    ("node", "Only those of this machine."),
    ("address", "Only the one with this MAC address."),
    ("shard", "Only those of machines in this shard; several with commas between."),
)

PORT = Kind(
    place="ports",
    name="port",
    told="Tell which network ports (MAC addresses) a machine has.",
    create="Add a port with a MAC address to a machine.",
    delete="Remove ports.",
    first="address",
    of_node=True,
    new=(_OF_NODE,),
    changed=(click.option("--node", help="Another machine, by uuid or name."),),
    listed=("uuid", "address", "node_uuid", "pxe_enabled"),
    options=(
        *texts(
            (
                ("name", "A name to call it by."),
                ("description", "A note."),
                ("physical_network", "The network that it is plugged into."),
                ("portgroup_uuid", "The portgroup that it is in."),
                ("vendor", "Who made it."),
                ("category", "Of what category it is."),
            )
        ),
        *flags(
            (
                ("pxe_enabled", "Whether the machine may boot by it."),
                ("is_smartnic", "Whether it is on a card that is a computer of its own."),
                ("available_for_dynamic_portgroup", "Whether portgroups may be made with it."),
            )
        ),
        members("--local-link", "local_link_connection", "the switch and port at its other end"),
        EXTRA,
    ),
    filters=texts((*_FILTERS, ("portgroup", "Only those in this portgroup."))),
)
PORTGROUP = Kind(
    place="portgroups",
    name="portgroup",
    told="Tell which ports of a machine act as one; `deploysteps port set` puts them there.",
    create="Make a portgroup of a machine.",
    delete="Remove portgroups that have no port.",
    of_node=True,
    new=(_OF_NODE,),
    listed=("uuid", "address", "name", "node_uuid", "mode"),
    options=(
        *texts(
            (
                ("name", "A name to call it by."),
                ("address", "Its MAC address."),
                ("mode", "How its ports act together, such as 802.3ad."),
                ("physical_network", "The network that it is plugged into."),
                ("category", "Of what category it is."),
            )
        ),
        *flags((("standalone_ports_supported", "Whether its ports may be used alone, too."),)),
        members("--property", "properties", "what else its mode wants to know"),
        EXTRA,
    ),
    filters=texts(_FILTERS),
)

port = group(PORT)
portgroup = group(PORTGROUP)
