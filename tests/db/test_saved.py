"""Deploy templates and runbooks: the same queries on both tables."""

from __future__ import annotations

import threading

import pytest

from deploysteps import exceptions
from deploysteps.db import runbooks, templates
from tests.support_sql import counting

STEPS = [{"interface": "deploy", "step": "a", "args": {"x": [1, "é", None]}, "priority": 5}]
KINDS = {
    "template": (
        templates,
        exceptions.DeployTemplateNotFound,
        exceptions.DeployTemplateDuplicateName,
        exceptions.DeployTemplateAlreadyExists,
    ),
    "runbook": (
        runbooks,
        exceptions.RunbookNotFound,
        exceptions.RunbookDuplicateName,
        exceptions.RunbookAlreadyExists,
    ),
}


@pytest.fixture(params=sorted(KINDS))
def saved(request):
    return KINDS[request.param]


def values(name="CUSTOM_A", **more):
    return {"name": name, "steps": STEPS, "extra": {}, **more}


def test_one_through_its_life(database, saved):
    room, missing, _, _ = saved
    made = room.insert(database, values(extra={"a": 1}))
    assert made.steps == STEPS and made.extra == {"a": 1} and made.updated_at is None
    assert made.uuid == room.get(database, "CUSTOM_A").uuid
    assert room.get(database, made.uuid.upper()).name == "CUSTOM_A"
    changed = room.update(database, "CUSTOM_A", {"name": "CUSTOM_B", "steps": []})
    assert (changed.id, changed.name, changed.steps) == (made.id, "CUSTOM_B", [])
    assert changed.updated_at is not None and changed.extra == {"a": 1}
    assert room.get(database, made.uuid).name == "CUSTOM_B"
    with pytest.raises(missing, match="CUSTOM_A") as told:
        room.get(database, "CUSTOM_A")
    assert told.value.code == 404
    assert room.delete(database, "CUSTOM_B").uuid == made.uuid
    for call in (
        lambda: room.delete(database, made.uuid),
        lambda: room.update(database, made.uuid, {"extra": {}}),
    ):
        with pytest.raises(missing, match=made.uuid):
            call()
    assert room.listing(database) == []


def test_a_name_and_a_uuid_are_taken_once(database, saved):
    room, _, same_name, same_uuid = saved
    one = room.insert(database, values())
    with pytest.raises(same_name, match="CUSTOM_A") as told:
        room.insert(database, values())
    assert told.value.code == 409
    with pytest.raises(same_uuid, match=one.uuid):
        room.insert(database, values("CUSTOM_B", uuid=one.uuid))
    room.insert(database, values("CUSTOM_B"))
    with pytest.raises(same_name, match="CUSTOM_A"):
        room.update(database, "CUSTOM_B", {"name": "CUSTOM_A"})
    assert {row.name for row in room.listing(database)} == {"CUSTOM_A", "CUSTOM_B"}


def test_pages(database, saved):
    room = saved[0]
    for name in ("CUSTOM_C", "CUSTOM_A", "CUSTOM_B"):
        room.insert(database, values(name))
    pages = room.listing(database, limit=2, sort_key="name")
    assert [row.name for row in pages] == ["CUSTOM_A", "CUSTOM_B"]
    rest = room.listing(database, limit=2, sort_key="name", marker=pages[-1].uuid)
    assert [row.name for row in rest] == ["CUSTOM_C"]
    down = room.listing(database, sort_key="name", sort_dir="desc")
    assert [row.name for row in down] == ["CUSTOM_C", "CUSTOM_B", "CUSTOM_A"]
    assert [row.name for row in room.listing(database)] == ["CUSTOM_C", "CUSTOM_A", "CUSTOM_B"]
    some = room.listing(database, filters={"name_in": ["CUSTOM_A", "CUSTOM_Z"]})
    assert [row.name for row in some] == ["CUSTOM_A"]
    with pytest.raises(exceptions.NotFound):
        room.listing(database, marker="nope")
    for wrong in ({"sort_key": "steps"}, {"sort_key": "nope"}, {"filters": {"colour": 1}}):
        with pytest.raises(exceptions.InvalidParameterValue):
            room.listing(database, **wrong)


def test_many_by_name_are_one_query(database, saved):
    room = saved[0]
    for name in ("CUSTOM_C", "CUSTOM_A"):
        room.insert(database, values(name))
    with counting(database) as count:
        found = room.named(database, ["CUSTOM_A", "CUSTOM_B", "CUSTOM_C"])
    assert count.statements == 1 and list(found) == ["CUSTOM_A", "CUSTOM_C"]
    with counting(database) as count:
        assert room.named(database, []) == {}
    assert count.statements == 0


def test_of_two_changes_from_one_reading_the_second_is_refused(database, saved):
    room = saved[0]
    room.insert(database, values(extra={"n": 0}))
    told: list[str] = []
    start = threading.Barrier(4)

    def change(number: int) -> None:
        start.wait(60)
        try:
            room.update(database, "CUSTOM_A", {"extra": {"n": number}}, before={"extra": {"n": 0}})
            told.append("changed")
        except exceptions.Conflict as exc:
            told.append(str(exc))

    threads = [threading.Thread(target=change, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert told.count("changed") == 1
    assert sum("extra of CUSTOM_A was changed by another request" in text for text in told) == 3


def test_runbooks_that_a_project_sees(database):
    runbooks.insert(database, values("CUSTOM_MINE", owner="me"))
    runbooks.insert(database, values("CUSTOM_THEIRS", owner="them"))
    runbooks.insert(database, values("CUSTOM_ALL", public=True, disable_ramdisk=True))

    def names(**filters):
        return [row.name for row in runbooks.listing(database, filters=filters, sort_key="name")]

    assert names(visible_to="me") == ["CUSTOM_ALL", "CUSTOM_MINE"]
    assert names(owner="them") == ["CUSTOM_THEIRS"]
    assert names(public=True) == ["CUSTOM_ALL"]
    assert names(public=False) == ["CUSTOM_MINE", "CUSTOM_THEIRS"]
    made = runbooks.get(database, "CUSTOM_ALL")
    assert made.disable_ramdisk is True and made.owner is None and made.description is None
