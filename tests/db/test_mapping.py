"""Models: an attribute of the class is a column, an attribute of an object is a value."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from deploysteps.db.group_models import Allocation, Chassis
from deploysteps.db.models import Node, NodeHistory, Port


def test_a_class_shows_columns_and_an_object_values():
    port = Port(uuid="u", pxe_enabled=False)
    port.name = "eth0"
    assert Port.name is Port.__table__.c.name
    assert (port.uuid, port.pxe_enabled, port.name) == ("u", False, "eth0")


def test_what_an_object_was_not_given_is_none():
    assert Port(uuid="u").address is None


def test_an_object_takes_only_what_its_class_has():
    with pytest.raises(TypeError, match="Port has no 'adress'"):
        Port(adress="52:54:00:00:00:01")


def test_the_annotation_says_whether_a_column_may_be_null_and_what_it_holds():
    assert Port.name.nullable and not Port.address.nullable
    assert isinstance(Port.pxe_enabled.type, sa.Boolean)
    assert isinstance(NodeHistory.duration_seconds.type, sa.Integer)
    assert NodeHistory.duration_seconds.nullable


def test_tables_that_share_a_class_of_columns_have_columns_of_their_own():
    assert Allocation.uuid.table is Allocation.__table__
    assert Chassis.uuid.table is Chassis.__table__


def test_a_statement_takes_a_class_for_its_table():
    assert "UPDATE ports" in str(sa.update(Port).where(Port.id == 1).values(name="n"))


def test_values_by_attribute_are_written_by_the_names_of_columns():
    assert Node.named({"agent_url_column": "u", "owner": "o"}) == {"agent_url": "u", "owner": "o"}
