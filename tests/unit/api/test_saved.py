"""Deploy templates and runbooks."""

from __future__ import annotations

import pytest

from deploysteps import exceptions
from deploysteps.db import runbooks, templates
from tests.support_api import Api, Recording, Refusing, quoted
from tests.support_sql import counting

UUID = "c2ab0b1e-1f7b-4c1e-9d7a-1a53d7b3f60a"
STEP = {"interface": "bios", "step": "apply_configuration", "args": {"settings": []}}
PLACES = ("deploy_templates", "runbooks")
NUMBER = {"deploy_templates": "priority", "runbooks": "order"}
WORD = {"deploy_templates": "deploy_template", "runbooks": "runbook"}
TABLE = {"deploy_templates": templates, "runbooks": runbooks}
SHORT = {"uuid", "name", "links"}
WHOLE = {
    "deploy_templates": {*SHORT, "created_at", "updated_at", "extra", "steps"},
    "runbooks": {
        *SHORT, "created_at", "updated_at", "extra", "steps", "public", "owner",
        "disable_ramdisk", "description", "traits",
    },
}  # fmt: skip


class Saver(Recording):
    """A conductor with a driver that declares an argument secret."""

    def get_secret_arguments(self, context):
        return {"bios.apply_configuration": ["word"]}


@pytest.fixture(params=PLACES)
def place(request):
    return request.param


@pytest.fixture
def step(place):
    return {**STEP, NUMBER[place]: 150}


@pytest.fixture
def item(sqlite, place, step):
    return TABLE[place].insert(sqlite, {"name": "CUSTOM_A", "steps": [step]})


@pytest.fixture
def conductor(item, place):
    word = WORD[place]
    return Saver(**{f"create_{word}": item, f"update_{word}": item})


@pytest.fixture
def api(conf, sqlite, conductor):
    return Api(conf, sqlite, conductor)


def test_a_new_one_is_answered_whole_with_its_place(api, conductor, place, item, step):
    body = {"name": "CUSTOM_HYPER", "steps": [step], "extra": {"a": 1}, "uuid": UUID}
    answer = api.post(f"/v1/{place}", body)
    assert answer.status == 201
    assert answer.headers["location"].endswith(f"/v1/{place}/{item.uuid}")
    assert set(answer.body) == WHOLE[place]
    assert answer.body["steps"] == [step]
    assert conductor.calls == [(f"create_{WORD[place]}", (body,), {})]


def test_numbers_may_be_digits(api, conductor, place, step):
    body = {"name": "CUSTOM_B", "steps": [{**step, NUMBER[place]: "07"}]}
    assert api.post(f"/v1/{place}", body).status == 201
    ((_, (values,), _),) = conductor.calls
    assert values["steps"] == [{**step, NUMBER[place]: 7}]


def test_types_are_those_that_clients_decode(api, place, item):
    body = api.get(f"/v1/{place}/CUSTOM_A").body
    assert set(body) == WHOLE[place]
    assert body["extra"] == {} and body["updated_at"] is None
    assert body["created_at"].endswith("+00:00")
    assert [link["href"].split("/", 3)[3] for link in body["links"]] == [
        f"v1/{place}/{item.uuid}",
        f"{place}/{item.uuid}",
    ]
    if place == "runbooks":
        told = ("public", "owner", "disable_ramdisk", "description", "traits")
        assert [body[name] for name in told] == [False, None, False, None, []]


def test_one_is_found_by_name_and_by_uuid(api, place, item):
    for ident in ("CUSTOM_A", item.uuid, item.uuid.upper()):
        assert api.get(f"/v1/{place}/{ident}").body["uuid"] == item.uuid
        assert api.delete(f"/v1/{place}/{ident}").status == 204
    for ident in ("CUSTOM_B", UUID, "a b", "\0", "\ud800", "x" * 300):
        for method, body in (("GET", None), ("PATCH", []), ("DELETE", None)):
            assert api(method, f"/v1/{place}/{quoted(ident)}", body).status == 404


def test_a_list_is_short_or_whole_or_what_was_asked_for(api, place, item):
    def listed(query=""):
        (found,) = api.get(f"/v1/{place}{query}").body[place]
        return found

    assert set(listed()) == SHORT
    assert set(listed("/?detail=True")) == WHOLE[place]
    assert set(listed("?fields=name,steps")) == {"name", "steps", "links"}
    assert set(api.get(f"/v1/{place}/CUSTOM_A?fields=name").body) == {"name", "links"}
    for query in ("fields=zzz", "fields=name&detail=True", "zzz=1", "limit=-1", "detail=x",
                  "sort_key=steps", "sort_key=extra", "sort_key=zzz", "sort_dir=x"):  # fmt: skip
        assert api.get(f"/v1/{place}?{query}").status == 400, query
    assert api.get(f"/v1/{place}?marker={UUID}").status == 404


def test_a_list_is_paged_and_sorted(api, sqlite, place, item):
    for number in range(4):
        TABLE[place].insert(sqlite, {"name": f"CUSTOM_B{number}", "steps": []})
    path, found = f"/v1/{place}?limit=2&sort_key=name&sort_dir=desc", []
    while path:
        body = api.get(path).body
        found += [one["name"] for one in body[place]]
        path = body.get("next", "").removeprefix("http://falconframework.org")
    assert found == ["CUSTOM_B3", "CUSTOM_B2", "CUSTOM_B1", "CUSTOM_B0", "CUSTOM_A"]


def test_a_page_costs_a_constant_number_of_queries(api, sqlite, place):
    """F86."""
    for number in range(4):
        TABLE[place].insert(sqlite, {"name": f"CUSTOM_B{number}", "steps": []})
    with counting(sqlite) as found:
        assert len(api.get(f"/v1/{place}?detail=True").body[place]) == 5
    assert found.statements == (2 if place == "runbooks" else 1), "one more for traits"


def test_secrets_of_steps_are_masked(api, sqlite, place, step):
    """F77: by their names, and those that a driver declares secret."""
    args = {"password": "hunter2", "url": "http://me:hunter2@h/", "word": "hunter2", "text": "x"}
    steps = [{**step, "args": args}]
    TABLE[place].insert(sqlite, {"name": "CUSTOM_S", "steps": steps})
    for path in (f"/v1/{place}/CUSTOM_S", f"/v1/{place}?detail=True"):
        assert "hunter2" not in api.get(path).text
    (shown,) = api.get(f"/v1/{place}/CUSTOM_S").body["steps"]
    assert shown["args"] == {**dict.fromkeys(("password", "word"), "******"), "text": "x",
                             "url": "http://******@h/"}  # fmt: skip
    assert {**shown, "args": {}} == {**step, "args": {}}


@pytest.mark.parametrize(
    ("patch", "values"),
    [
        ([{"op": "add", "path": "/extra/a", "value": "b"}], {"extra": {"a": "b"}}),
        ([{"op": "replace", "path": "/name", "value": "CUSTOM_Z"}], {"name": "CUSTOM_Z"}),
        ([{"op": "remove", "path": "/extra"}], {"extra": {}}),
        (
            [{"op": "replace", "path": "/steps/0/args/settings", "value": [1]}],
            {"steps": [{"args": {"settings": [1]}}]},
        ),
    ],
)
def test_a_patch_reaches_the_conductor_with_what_it_was_made_from(
    api, conductor, place, item, step, patch, values
):
    answer = api.patch(f"/v1/{place}/CUSTOM_A", patch)
    assert (answer.status, set(answer.body)) == (200, WHOLE[place])
    ((verb, (ident, given, before), _),) = conductor.calls
    assert (verb, ident) == (f"update_{WORD[place]}", item.uuid)
    if "steps" in values:
        values = {"steps": [{**step, **values["steps"][0]}]}
    assert given == values
    assert before == {name: getattr(item, name) for name in values if name != "name"}


def test_an_empty_patch_changes_nothing(api, conductor, place):
    assert api.patch(f"/v1/{place}/CUSTOM_A", []).status == 200
    assert conductor.calls == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": "bad-name"}, "bad-name"),
        ({"name": "CUSTOM_\n"}, "CUSTOM_"),
        ({"name": None}, "name must be of type string"),
        ({"name": ""}, "name must not be empty"),
        ({"name": "CUSTOM_" + "X" * 250}, "name must have at most 255"),
        ({"steps": []}, "steps must not be empty"),
        ({"steps": None}, "steps must be of type array"),
        ({"steps": {}}, "steps must be of type array"),
        ({"steps": [5]}, "steps[0] must be of type object"),
        ({"steps": [{}]}, "'interface' is a required property in steps[0]"),
        ({"extra": []}, "extra must be of type object"),
        ({"uuid": "x"}, "uuid must be a UUID"),
        ({"zzz": 1}, "zzz"),
        ({"traits": ["CUSTOM_A"]}, "traits"),
    ],
)
def test_a_mistake_is_400_and_named(api, conductor, place, step, change, told):
    """F15; an empty list and a bad name were seen at the field's server."""
    body = {"name": "CUSTOM_B", "steps": [step], **change}
    answer = api.post(f"/v1/{place}", body)
    assert answer.status == 400 and told in answer.fault, answer
    if not {"uuid", "zzz", "traits"} & set(change):
        patch = [{"op": "add", "path": f"/{n}", "value": v} for n, v in change.items()]
        assert api.patch(f"/v1/{place}/CUSTOM_A", patch).status == (
            200 if change == {"extra": None} else 400
        )
    assert conductor.calls == []


@pytest.mark.parametrize("path", ["/uuid", "/links", "/created_at", "/traits", "/zzz"])
def test_what_cannot_be_changed(api, conductor, place, path):
    for patch in ([{"op": "add", "path": path, "value": UUID}], {}, [5]):
        assert api.patch(f"/v1/{place}/CUSTOM_A", patch).status == 400
    for name in ("name", "steps"):
        gone = [{"op": "remove", "path": f"/{name}"}]
        assert "can not be removed" in api.patch(f"/v1/{place}/CUSTOM_A", gone).fault
    assert conductor.calls == []


@pytest.mark.parametrize("member", ["interface", "step", "args"])
def test_every_member_of_a_step_is_required(api, conductor, place, step, member):
    for missing in (member, NUMBER[place]):
        short = {name: value for name, value in step.items() if name != missing}
        answer = api.post(f"/v1/{place}", {"name": "CUSTOM_B", "steps": [step, short]})
        assert f"'{missing}' is a required property in steps[1]" in answer.fault
    other = {"priority": "order", "order": "priority"}[NUMBER[place]]
    answer = api.post(f"/v1/{place}", {"name": "CUSTOM_B", "steps": [{**step, other: 1}]})
    assert f"'{other}' was unexpected" in answer.fault
    assert conductor.calls == []


def test_a_step_stands_once_in_a_template_and_as_often_as_one_likes_in_a_runbook(
    api, conductor, place, step
):
    body = {"name": "CUSTOM_B", "steps": [step, {**step, NUMBER[place]: 1, "args": {}}]}
    answer = api.post(f"/v1/{place}", body)
    assert answer.status == (400 if place == "deploy_templates" else 201)
    if answer.status == 400:
        assert "bios.apply_configuration twice" in answer.fault
        assert conductor.calls == []


def test_what_the_conductor_refuses_is_told(conf, sqlite, place, step, item):
    taken = exceptions.DeployTemplateDuplicateName(name="CUSTOM_B")
    api = Api(conf, sqlite, Refusing(taken))
    assert api.post(f"/v1/{place}", {"name": "CUSTOM_B", "steps": [step]}).status == 409
    wrong = exceptions.InvalidParameterValue("the step bios.x needs the argument 'settings'")
    api = Api(conf, sqlite, Refusing(wrong))
    answer = api.post(f"/v1/{place}", {"name": "CUSTOM_B", "steps": [step]})
    assert (answer.status, answer.fault) == (400, wrong.message)


def test_members_of_a_runbook(conf, sqlite):
    item = runbooks.insert(sqlite, {"name": "CUSTOM_A", "steps": []})
    conductor = Saver(create_runbook=item)
    api = Api(conf, sqlite, conductor)
    more = {"public": "True", "owner": "me", "disable_ramdisk": True, "description": "d"}
    body = {"name": "CUSTOM_B", "steps": [{**STEP, "order": 1}], **more}
    assert api.post("/v1/runbooks", body).status == 201
    assert conductor.calls[0][1] == ({**body, "public": True},)
    assert api.post("/v1/runbooks", body, version=111).status == 406
    del body["description"]
    assert api.post("/v1/runbooks", body, version=92).status == 201
    patch = [{"op": "add", "path": "/description", "value": "x"}]
    assert api.patch("/v1/runbooks/CUSTOM_A", patch, version=111).status == 406
    for name, value in (("public", 5), ("owner", 5), ("disable_ramdisk", "x"), ("owner", "\0")):
        assert api.post("/v1/runbooks", {**body, name: value}).status == 400
