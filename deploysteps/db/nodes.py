"""Queries on nodes and their history. Everything returned is detached."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy import orm

from deploysteps import exceptions
from deploysteps.db import types
from deploysteps.db.engine import Database, again
from deploysteps.db.models import Node, NodeHistory, Port, table
from deploysteps.db.node import STEP_KEYS as STEP_KEYS
from deploysteps.db.pages import (
    exists,
    fetch,
    has,
    is_uuid,
    page,
    paged,
    rows_of,
    translating,
)

_IDENT: Any = sa.bindparam("ident")
_BY_ID, _BY_UUID, _BY_NAME = (
    rows_of(Node).where(column == _IDENT) for column in (Node.id, Node.uuid, Node.name)
)


def _by_ident(ident: str | int) -> tuple[sa.Select[Any], str | int]:
    """Return the query for a node's row id, uuid or name, and its value."""
    if isinstance(ident, int):
        return _BY_ID, ident
    return (_BY_UUID, ident.lower()) if is_uuid(ident) else (_BY_NAME, ident)


def get(database: Database, ident: str | int) -> Node:
    """Return the node of this uuid, name or (int) row id.

    :raises NodeNotFound: there is none.
    """
    query, value = _by_ident(ident)
    found = database.read(lambda c: fetch(c, Node, query, {"ident": value}))
    if not found:
        raise exceptions.NodeNotFound(node=ident)
    return found[0]


_AT_ONCE = 500
"""Parameters of one query: SQLite has a limit."""


def owned(database: Database, idents: Sequence[str]) -> dict[str, Sequence[Any]]:
    """Return uuid or name -> uuid, owner and lessee of each node that is there."""
    columns = table(Node).c
    found: dict[str, Sequence[Any]] = {}
    for at in range(0, len(idents), _AT_ONCE):
        some = [ident.lower() if is_uuid(ident) else ident for ident in idents[at : at + _AT_ONCE]]
        query = sa.select(columns.uuid, columns.owner, columns.lessee, columns.name).where(
            sa.or_(columns.uuid.in_(some), columns.name.in_(some))
        )
        for row in database.read(functools.partial(_rows, query=query)):
            found[row.uuid] = row[:3]
            if row.name is not None:
                found[row.name] = row[:3]
    return found


def _rows(connection: sa.Connection, query: sa.Select[Any]) -> Sequence[Any]:
    return connection.execute(query).all()


_LONGEST_SEARCH = 4096


def _describes(text: str) -> sa.ColumnElement[bool]:
    if len(text) > _LONGEST_SEARCH:  # SQLite has a limit of its own, and no words for it
        raise exceptions.InvalidParameterValue(
            f"a description is searched for by at most {_LONGEST_SEARCH} characters"
        )
    return Node.description.contains(text, autoescape=True)


def _is_uuid(column: orm.QueryableAttribute[Any], uuid: str) -> sa.ColumnElement[bool]:
    """Return a condition that finds rows of older programs as well: those are as they came."""
    forms = {uuid, uuid.lower(), uuid.upper()}
    return column.in_([sa.literal(form, types.short_text(36)) for form in sorted(forms)])


# What a list may be filtered by: name -> condition of a value. An unknown
# name is an error, never ignored.
FILTERS: dict[str, Callable[[Any], sa.ColumnElement[bool]]] = {
    "associated": lambda v: has(Node.instance_uuid) if v else Node.instance_uuid.is_(None),
    "chassis_uuid": lambda v: _is_uuid(Node.chassis_uuid, v),
    "conductor_group": lambda v: Node.conductor_group == v,
    "description_contains": lambda v: _describes(v),
    "driver": lambda v: Node.driver == v,
    "driver_in": lambda v: Node.driver.in_(list(v)),
    "fault": lambda v: Node.fault == v,
    "has_parent": lambda v: has(Node.parent_node) if v else Node.parent_node.is_(None),
    "id_in": lambda v: Node.id.in_(  # written out: no database takes so many parameters
        sa.bindparam(None, list(v), expanding=True, literal_execute=True)
    ),
    "instance_name": lambda v: Node.instance_name == v,
    "instance_uuid": lambda v: _is_uuid(Node.instance_uuid, v),
    "lessee": lambda v: Node.lessee == v,
    "maintenance": lambda v: Node.maintenance == sa.literal(bool(v)),
    "owner": lambda v: Node.owner == v,
    "parent_node": lambda v: Node.parent_node == v,
    "provision_state": lambda v: Node.provision_state == v,
    "provision_state_in": lambda v: Node.provision_state.in_(list(v)),
    "reserved": lambda v: has(Node.reservation) if v else Node.reservation.is_(None),
    "resource_class": lambda v: Node.resource_class == v,
    "retired": lambda v: Node.retired == sa.literal(bool(v)),
    "shard": lambda v: Node.shard == v,
    "shard_in": lambda v: Node.shard.in_(list(v)),
    "sharded": lambda v: has(Node.shard) if v else Node.shard.is_(None),
    "uuid_in": lambda v: Node.uuid.in_(list(v)),
    "visible_to": lambda v: sa.or_(Node.owner == v, Node.lessee == v),
}


def whose(node_id: Any, name: str, value: Any) -> sa.ColumnElement[bool]:
    """Return the condition that a row is of a node which a filter lets through.

    :param node_id: the row's column with the node's row id.
    :param name: one of :data:`FILTERS`.
    """
    within: sa.ColumnElement[bool] = node_id.in_(sa.select(Node.id).where(FILTERS[name](value)))
    return within


def condition(name: str, value: Any) -> sa.ColumnElement[bool]:
    """Return what a filter of a driver's periodic method asks of a node.

    :param name: one of :data:`FILTERS`, a column, or ``<column>_in``.
    :raises InvalidParameterValue: for a name or a value that no node can have.
    """
    if name in FILTERS:
        return FILTERS[name](value)
    several = name.endswith("_in")
    column = Node.__table__.c.get(name.removesuffix("_in"))
    if column is None or isinstance(column.type, types.Json):
        raise exceptions.InvalidParameterValue(
            f"unknown node filter {name!r}; there are the node's columns of plain values, each "
            f"also with _in, and {', '.join(sorted(FILTERS))}"
        )
    plain: Any = getattr(column.type, "impl_instance", column.type)
    kind = plain.python_type
    for one in value if several else [value]:
        if one is not None and not isinstance(one, kind):
            raise exceptions.InvalidParameterValue(
                f"node filter {name!r} takes {kind.__name__}, not {type(one).__name__}"
            )
    return column.in_(list(value)) if several else column == value


def listing(
    database: Database,
    *,
    filters: Mapping[str, Any] | None = None,
    limit: int | None = None,
    marker: str | None = None,
    sort_key: str = "id",
    sort_dir: str = "asc",
) -> list[Node]:
    """Return a page of nodes; see :data:`FILTERS` for what narrows it.

    :raises InvalidParameterValue: for an unknown filter or sort key.
    :raises NotFound: for an unknown marker (a uuid).
    """
    query = _narrowed(rows_of(Node), filters)
    return database.read(
        lambda c: page(
            query, Node, c, limit=limit, marker=marker, sort_key=sort_key, sort_dir=sort_dir
        )
    )


def rows(
    database: Database,
    columns: tuple[str, ...],
    *,
    filters: Mapping[str, Any] | None = None,
    **asked: Any,
) -> Sequence[Sequence[Any]]:
    """Return some columns of a page of nodes, those of JSON as text; as :func:`listing`.

    :param columns: names of the table's columns, in the order of a row's values.
    """
    query = _narrowed(_some(columns), filters)
    return database.read(lambda c: c.execute(paged(query, Node, c, **asked)).all())


def every(database: Database, columns: tuple[str, ...]) -> Sequence[Sequence[Any]]:
    """Return some columns of all nodes."""
    query = _some(columns)
    return database.read(lambda c: c.execute(query).all())


@functools.lru_cache(256)
def _some(columns: tuple[str, ...]) -> sa.Select[Any]:
    held = table(Node).c
    return sa.select(
        *(
            sa.type_coerce(held[name], sa.Text).label(name)
            if isinstance(held[name].type, types.Json)
            else held[name]
            for name in columns
        )
    )


def _narrowed(query: sa.Select[Any], filters: Mapping[str, Any] | None) -> sa.Select[Any]:
    for name, value in (filters or {}).items():
        if name not in FILTERS:
            raise exceptions.InvalidParameterValue(f"unknown node filter {name!r}")
        query = query.where(FILTERS[name](value))
    return query


def insert(database: Database, values: Mapping[str, Any]) -> Node:
    """Insert a node and return it; it is given a uuid when it has none.

    :raises NodeAlreadyExists, DuplicateName, InstanceAssociated: it clashes.
    """
    row = {**values, "uuid": (values.get("uuid") or str(uuid4())).lower()}

    def work(connection: sa.Connection) -> None:
        connection.execute(sa.insert(Node).values(row))

    with translating(row):
        database.write(work, happened=lambda c: exists(c, Node, row["uuid"]))
    return get(database, row["uuid"])


def set_unlocked(database: Database, node_id: int, values: Mapping[str, Any]) -> None:
    """Write columns that no lock protects (maintenance, fault)."""

    def work(connection: sa.Connection) -> None:
        connection.execute(
            sa.update(Node)
            .where(Node.id == node_id)
            .values({**values, "updated_at": types.utcnow()})
        )

    database.write(work, happened=again)


def shards(database: Database) -> list[tuple[str | None, int]]:
    """Return shard -> how many nodes are in it, the fullest first; None: in none."""
    many = sa.func.count()
    query = sa.select(Node.shard, many).group_by(Node.shard).order_by(many.desc(), Node.shard)
    return [(row[0], row[1]) for row in database.read(lambda c: c.execute(query).all())]


def children(database: Database, uuid: str, visible_to: str | None = None) -> list[str]:
    """Return the uuids of the nodes whose parent this is.

    :param visible_to: a project: only nodes that it owns or has on loan.
    """
    query = sa.select(Node.uuid).where(Node.parent_node == uuid).order_by(Node.id)
    if visible_to is not None:
        query = query.where(FILTERS["visible_to"](visible_to))
    return database.read(lambda c: list(c.execute(query).scalars()))


class Projects(NamedTuple):
    """Whose a node is: what rules ask of it."""

    owner: str | None
    lessee: str | None


def projects_of(database: Database, uuids: Iterable[str]) -> dict[str, Projects]:
    """Return uuid -> whose the node is, of those that are there."""
    query = sa.select(Node.uuid, Node.owner, Node.lessee).where(Node.uuid.in_(list(uuids)))
    rows: list[Any] = database.read(lambda c: list(c.execute(query).all()))
    return {uuid: Projects(owner, lessee) for uuid, owner, lessee in rows}


def of_addresses(database: Database, addresses: Iterable[str]) -> list[Node]:
    """Return the nodes that own ports of these addresses."""
    wanted = [address.lower() for address in addresses]
    query = rows_of(Node).where(
        Node.id.in_(sa.select(Port.node_id).where(Port.address.in_(wanted)))
    )
    return database.read(lambda c: fetch(c, Node, query)) if wanted else []


# --- history ----------------------------------------------------------------------


def history_row(
    node: Node | int,
    event: str,
    *,
    event_type: str,
    severity: str = "INFO",
    conductor: str | None = None,
    user: str | None = None,
    project: str | None = None,
) -> dict[str, Any]:
    """Return the values of a history entry, to be inserted with what it tells of.

    :param node: the node, of which the state that is stored is told and since
        when; or only its row id.
    """
    now = types.utcnow()
    state = target = since = None
    if isinstance(node, Node):
        state, target = node.was("provision_state"), node.was("target_provision_state")
        since = node.was("provision_updated_at")
    return {
        "uuid": str(uuid4()),
        "node_id": node.id if isinstance(node, Node) else node,
        "created_at": now,
        "state": state,
        "target_provision_state": target,
        "duration_seconds": max(int((now - since).total_seconds()), 0) if since else None,
        "project": project[:255] if project else None,
        "severity": severity,
        "event_type": event_type,
        "event": event,
        "conductor": conductor,
        "user": user,
    }


def history_of(
    database: Database, node_id: int, limit: int | None = None, marker: str | None = None
) -> list[NodeHistory]:
    """Return a node's history, newest first, after the entry whose uuid is ``marker``.

    :raises NotFound: for an unknown marker.
    """
    query = (
        rows_of(NodeHistory)
        .where(NodeHistory.node_id == node_id)
        .order_by(NodeHistory.id.desc())
        .limit(limit)
    )
    if marker is not None:
        query = query.where(NodeHistory.id < history_entry(database, node_id, marker).id)
    return database.read(lambda c: fetch(c, NodeHistory, query))


def history_entry(database: Database, node_id: int, uuid: str) -> NodeHistory:
    """Return one entry of a node's history.

    :raises NotFound: there is none.
    """
    query = rows_of(NodeHistory).where(NodeHistory.node_id == node_id, NodeHistory.uuid == uuid)
    found = database.read(lambda c: fetch(c, NodeHistory, query))
    if not found:
        raise exceptions.NotFound(f"The node has no history entry {uuid[:80]}.")
    return found[0]
