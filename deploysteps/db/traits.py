"""Queries on the traits of nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence

import sqlalchemy as sa

from deploysteps import exceptions
from deploysteps.db.engine import Database
from deploysteps.db.models import Node, NodeTrait, table

MAX_TRAITS = 50
"""How many traits a node may have, as in the field."""

_T, _N = table(NodeTrait), table(Node)
_LONGEST = 255
# A standard trait, or CUSTOM_ and a name of one's own. Which standard traits
# there are is the scheduler's to know: the os-traits package has its list,
# which grows with each release and would refuse here what is new there.
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")


def check_name(name: object, what: str = "trait") -> None:
    """Refuse what cannot be the name of a trait; templates and runbooks bear such names too.

    :raises InvalidParameterValue: with the rule.
    """
    if (
        isinstance(name, str)
        and len(name) <= _LONGEST
        and _NAME.fullmatch(name)
        and name != "CUSTOM_"
    ):
        return
    shown = repr(name)
    raise exceptions.InvalidParameterValue(
        f"{shown if len(shown) <= 80 else shown[:77] + '...'} cannot be the name of a {what}: it "
        f"must be a standard trait, or CUSTOM_ and a name, of at most {_LONGEST} characters: "
        "upper case letters, digits and _"
    )


def of_node(database: Database, node_id: int) -> list[str]:
    """Return a node's traits, sorted."""
    return database.read(lambda c: _of(c, node_id))


def of_nodes(database: Database, node_ids: Sequence[int]) -> dict[int, list[str]]:
    """Return node id -> its traits, sorted, in one query."""
    found: dict[int, list[str]] = {node_id: [] for node_id in node_ids}
    query = sa.select(_T.c.node_id, _T.c.trait).where(_T.c.node_id.in_(node_ids))
    rows = database.read(lambda c: c.execute(query).all()) if node_ids else ()
    for node_id, trait in sorted((row[0], row[1]) for row in rows):
        found[node_id].append(trait)
    return found


def change(
    database: Database,
    node_id: int,
    *,
    replace: Iterable[str] | None = None,
    add: Iterable[str] = (),
    remove: Iterable[str] = (),
) -> list[str]:
    """Change a node's traits in one transaction, and return those that it has then.

    Needs no lock on the node: changes take turns on its row.

    :raises InvalidParameterValue: a name that cannot be one, or too many.
    :raises NodeTraitNotFound: one that is to be removed and not there.
    :raises NodeNotFound: the node is gone.
    """
    given = None if replace is None else frozenset(replace)
    more, less = frozenset(add), frozenset(remove)
    for name in sorted({*(given or ()), *more}, key=str):
        check_name(name)

    def wanted(before: Collection[str]) -> frozenset[str]:
        kept = frozenset(before) if given is None else given
        for name in sorted(less - kept):
            raise exceptions.NodeTraitNotFound(node=node_id, trait=name)
        return (kept - less) | more

    return _store(database, node_id, wanted)


def replace(database: Database, node_id: int, names: Iterable[str]) -> list[str]:
    """Give a node these traits and no others; see :func:`change`."""
    return change(database, node_id, replace=names)


def add(database: Database, node_id: int, names: Iterable[str]) -> list[str]:
    """Give a node more traits; see :func:`change`."""
    return change(database, node_id, add=names)


def remove(database: Database, node_id: int, names: Iterable[str]) -> list[str]:
    """Take traits from a node; see :func:`change`."""
    return change(database, node_id, remove=names)


def _store(
    database: Database, node_id: int, wanted: Callable[[Collection[str]], frozenset[str]]
) -> list[str]:
    after: list[str] = []

    def work(connection: sa.Connection) -> list[str]:
        # Two at once would each see room for the last one.
        row = sa.select(_N.c.uuid).where(_N.c.id == node_id).with_for_update()
        uuid = connection.execute(row).scalar()
        if uuid is None:
            raise exceptions.NodeNotFound(node=node_id)
        before = _of(connection, node_id)
        try:
            after[:] = sorted(wanted(before))
        except exceptions.NodeTraitNotFound as exc:
            raise exceptions.NodeTraitNotFound(node=uuid, trait=exc.kwargs["trait"]) from None
        if len(after) > MAX_TRAITS:
            raise exceptions.InvalidParameterValue(
                f"Node {uuid} would have {len(after)} traits; it may have at most {MAX_TRAITS}"
            )
        gone = [name for name in before if name not in after]
        new = [{"node_id": node_id, "trait": name} for name in after if name not in before]
        if gone:
            connection.execute(
                sa.delete(_T).where(_T.c.node_id == node_id).where(_T.c.trait.in_(gone))
            )
        if new:
            connection.execute(sa.insert(_T), new)
        return list(after)

    return database.write(work, happened=lambda c: _of(c, node_id) == after)


def _of(connection: sa.Connection, node_id: int) -> list[str]:
    query = sa.select(_T.c.trait).where(_T.c.node_id == node_id)
    return sorted(connection.execute(query).scalars())
