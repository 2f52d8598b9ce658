"""``deploysteps chassis``: the cases that nodes stand in."""

from __future__ import annotations

from deploysteps.cli.collection import Kind, group
from deploysteps.cli.params import EXTRA, texts

CHASSIS = Kind(
    place="chassis",
    name="chassis",
    told="Tell which machines stand in one case (`deploysteps node list --chassis-uuid`).",
    create="Make a chassis; `deploysteps node set --chassis-uuid` puts machines there.",
    delete="Remove chassis in which no machine stands.",
    listed=("uuid", "description"),
    options=(*texts((("description", "A note."),)), EXTRA),
)

chassis = group(CHASSIS)
