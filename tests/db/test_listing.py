"""Lists: filters, and pages that are complete whatever they are sorted by."""

from __future__ import annotations

import datetime
import itertools
import subprocess
import sys

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deploysteps import exceptions
from deploysteps.db import migration, nodes, ports, types
from deploysteps.db.models import Node, Port, table
from tests.support_sql import counting

NODES, PORTS = table(Node), table(Port)
UUIDS = ["11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"]
NOW = datetime.datetime(2026, 11, 3, tzinfo=datetime.UTC)


def sortable(one):
    return [c.name for c in one.c if not isinstance(c.type, types.Json)]


def python_type(column):
    return getattr(column.type, "impl_instance", column.type).python_type


SORT_KEYS = sortable(NODES)
ONE_OF_EACH = list(
    {
        (python_type(NODES.c[n]), NODES.c[n].nullable, NODES.c[n].unique): n for n in SORT_KEYS
    }.values()
)
UNIQUE = {"id", "uuid", "name", "instance_uuid"}


def value_of(column: sa.Column, number: int, place: int):
    """One of three values of a column, or NULL where it may be; different if it must be."""
    if column.nullable and number == 0:
        return None
    kind = python_type(column)
    if kind is bool:
        return bool(number % 2)
    if kind is datetime.datetime:
        return NOW + datetime.timedelta(microseconds=number)
    if kind is int:
        return number
    text = ("Zz", "aa", "éé", "_")[number]
    return f"{text}{place}" if column.name in UNIQUE else text


def rows(numbers):
    """Rows with ties and NULLs: the number says which value every column has."""
    for place, number in enumerate(numbers):
        row = {
            column.name: value_of(column, number, place)
            for column in NODES.c
            if column.name != "id" and column.name in SORT_KEYS
        }
        for column in NODES.c:
            if column.name not in SORT_KEYS:
                row[column.name] = None if column.nullable else {}
        yield row


def pages(database, limit, **more):
    """Return every page until an empty one."""
    found, marker = [], None
    while True:
        page = nodes.listing(database, limit=limit, marker=marker, **more)
        assert len(page) <= limit
        if not page:
            return found
        found.append(page)
        marker = page[-1].uuid
        assert len(found) < 100


@pytest.fixture(scope="module")
def filled(shared):
    """Rows with ties and NULLs in every column that can be sorted by."""
    migration.ensure(shared)
    with shared.engine.begin() as connection:
        connection.execute(sa.insert(NODES), list(rows([1, 0, 2, 0, 1, 2, 3, 1, 0, 3, 2])))
    return shared


@pytest.mark.parametrize("sort_dir", ["asc", "desc"])
def test_pages_are_complete_whatever_they_are_sorted_by(filled, sort_dir):
    """NULLs and ties included; NULLs are last both ways."""
    for sort_key in SORT_KEYS if filled.dialect == "sqlite" else ONE_OF_EACH:
        check_pages(filled, sort_key, sort_dir)


def check_pages(filled, sort_key, sort_dir):
    wanted = [n.id for n in nodes.listing(filled, sort_key=sort_key, sort_dir=sort_dir)]
    assert sorted(wanted) == [n.id for n in nodes.listing(filled)] and len(wanted) == 11
    for limit in (3, 11):
        found = pages(filled, limit, sort_key=sort_key, sort_dir=sort_dir)
        assert [n.id for page in found for n in page] == wanted
    listed = nodes.listing(filled, sort_key=sort_key, sort_dir=sort_dir)
    values = [n.__dict__.get(sort_key, n.id) for n in listed if sort_key in n.__dict__]
    known = [v for v in values if v is not None]
    assert values[len(known) :] == [None] * (len(values) - len(known))
    if known and not isinstance(known[0], str):
        assert known == sorted(known, reverse=sort_dir == "desc")


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(st.integers(0, 3), max_size=9),
    st.sampled_from(SORT_KEYS),
    st.sampled_from(["asc", "desc"]),
    st.integers(1, 4),
)
def test_pages_of_any_rows(sqlite, numbers, sort_key, sort_dir, limit):
    with sqlite.engine.begin() as connection:
        connection.execute(sa.delete(NODES))
        if numbers:
            connection.execute(sa.insert(NODES), list(rows(numbers)))
    found = [n for p in pages(sqlite, limit, sort_key=sort_key, sort_dir=sort_dir) for n in p]
    assert [n.id for n in found] == [
        n.id for n in nodes.listing(sqlite, sort_key=sort_key, sort_dir=sort_dir)
    ]
    assert len({n.id for n in found}) == len(found) == len(numbers)


def test_a_page_goes_on_though_its_marker_was_changed(filled):
    """Rows that come and go meanwhile make no error and no repetition."""
    first = nodes.listing(filled, limit=3, sort_key="driver")
    with filled.engine.begin() as connection:
        connection.execute(sa.update(NODES).where(NODES.c.id == first[-1].id).values(driver="_"))
    rest = nodes.listing(filled, marker=first[-1].uuid, sort_key="driver")
    assert not {n.id for n in rest} & {first[-1].id}


@pytest.mark.parametrize("key", ["nope", "extra", "driver_internal_info", "", "1"])
def test_what_cannot_be_sorted_by(sqlite, key):
    with pytest.raises(exceptions.InvalidParameterValue, match="sort_key"):
        nodes.listing(sqlite, sort_key=key)


def test_other_mistakes(sqlite):
    with pytest.raises(exceptions.InvalidParameterValue, match="sort_dir"):
        nodes.listing(sqlite, sort_dir="sideways")
    with pytest.raises(exceptions.NotFound, match="Marker nobody"):
        nodes.listing(sqlite, marker="nobody")
    with pytest.raises(exceptions.InvalidParameterValue, match="unknown node filter 'colour'"):
        nodes.listing(sqlite, filters={"colour": "red"})


PLAIN = (
    "chassis_uuid",
    "conductor_group",
    "driver",
    "fault",
    "instance_name",
    "instance_uuid",
    "lessee",
    "owner",
    "parent_node",
    "provision_state",
    "resource_class",
    "shard",
)
# filter -> (values of one node, what finds it, what finds the other)
FILTERS = {
    **{name: ({name: "this"}, "this", "that") for name in PLAIN},
    "associated": ({"instance_uuid": "x"}, True, False),
    "description_contains": ({"description": "here it is"}, "it", "that"),
    "driver_in": ({"driver": "this"}, ["this", "more"], ["that"]),
    "has_parent": ({"parent_node": "x"}, True, False),
    "id_in": ({"id": 71}, [71, 5], [72]),
    "maintenance": ({"maintenance": True}, True, False),
    "provision_state_in": ({"provision_state": "this"}, {"this"}, {"that"}),
    "reserved": ({"reservation": "x"}, True, False),
    "retired": ({"retired": True}, True, False),
    "shard_in": ({"shard": "this"}, ["this"], ["that"]),
    "sharded": ({"shard": "x"}, True, False),
    "uuid_in": ({"uuid": UUIDS[0]}, UUIDS[:1], UUIDS[1:]),
    "visible_to": ({"owner": "this"}, "this", "that"),
}
OTHER = {
    **dict.fromkeys(PLAIN, "that"),
    "instance_uuid": "that",
    "description": "that",
    "uuid": UUIDS[1],
    "id": 72,
    "conductor_group": "",
}


def test_every_filter_is_tried_here():
    assert FILTERS.keys() == nodes.FILTERS.keys()


@pytest.mark.parametrize("name", sorted(FILTERS))
def test_a_filter_finds_what_it_says_and_nothing_else(database, make, name):
    """F39."""
    values, finds, finds_other = FILTERS[name]
    this = make(database, **values)
    column = next(iter(values))
    boolean = isinstance(finds, bool)
    other = make(
        database,
        **(
            {}
            if boolean
            else {
                **{k: OTHER[k] for k in values},
                **({"conductor_group": "that"} if name == "conductor_group" else {}),
            }
        ),
    )
    assert [n.id for n in nodes.listing(database, filters={name: finds})] == [this.id], column
    assert [n.id for n in nodes.listing(database, filters={name: finds_other})] == [other.id]


def test_filters_narrow_each_other(database, make):
    make(database, owner="a", shard="x")
    both = make(database, owner="a", shard="y")
    make(database, owner="b", shard="y")
    found = nodes.listing(database, filters={"owner": "a", "shard": "y"})
    assert [n.id for n in found] == [both.id]
    assert nodes.listing(database, filters={"id_in": []}) == []
    assert nodes.listing(database, filters={"uuid_in": []}) == []


def test_a_list_is_one_query_however_long_it_is(database):
    """F86: 5,000 nodes, and their ports in one more."""
    row = {"driver": "d", "provision_state": "available"}
    with database.engine.begin() as connection:
        connection.execute(sa.insert(Node), [{"uuid": f"n{i}", **row} for i in range(5000)])
    with counting(database) as count:
        found = nodes.listing(database)
        assert len(found) == 5000
        assert len(ports.uuids_of(database, [n.id for n in found])) == 5000
    assert count.statements == 2


def test_pages_of_ports(database, make):
    node = make(database)
    for number in range(5):
        ports.insert(
            database,
            {
                "node_id": node.id,
                "node_uuid": node.uuid,
                "address": f"a{number}",
                "physical_network": ["b", None][number % 2],
                "pxe_enabled": bool(number % 2),
            },
        )
    for sort_key, sort_dir in itertools.product(sortable(PORTS), ("asc", "desc")):
        wanted = [p.id for p in ports.listing(database, sort_key=sort_key, sort_dir=sort_dir)]
        found, marker = [], None
        while page := ports.listing(
            database, limit=2, marker=marker, sort_key=sort_key, sort_dir=sort_dir
        ):
            found.extend(p.id for p in page)
            marker = page[-1].uuid
        assert found == wanted and len(found) == 5


def test_whatever_a_process_reads_first():
    """Objects made past the session need their class to be set up before."""
    code = """
from deploysteps.db import migration, models, pages
from deploysteps.db.engine import Database
database = Database("sqlite://")
migration.ensure(database)
one = models.StepAttempt
column = list(models.table(one).c)[0]
import sqlalchemy as sa
query = sa.select(*(sa.literal(7, c.type).label(c.name) if c is column
                    else sa.null().label(c.name) for c in models.table(one).c))
(found,) = database.read(lambda c: pages.fetch(c, one, query))
print(getattr(found, column.name))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout == "7\n", ran.stderr
