"""No secret gets out: markers are planted wherever one may be, and hunted in all that is told.

Promise 12. Every route that can be read is read; the log is written at DEBUG,
formatted as the service formats it; and the steps get what was planted, intact.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from typing import Any, ClassVar
from urllib.parse import quote

import pytest
import sqlalchemy as sa
from oslo_log import formatters

from deploysteps import exceptions, states
from deploysteps.api import app, call, versions
from deploysteps.conf import logs
from deploysteps.db.models import Base
from deploysteps.drivers import base
from tests import support
from tests.support_api import Api

CORE = "zQ7marker"
"""In every planted secret; what is found anywhere is a leak."""


def planted(where: str) -> str:
    """Return a secret with all that escaping may change."""
    return f"{CORE}-{where}'\"\\ +%é\n&end"


SECRETS = {
    "password": planted("password"),
    "nested": planted("nested"),
    "url": "zQ7marker-url@p",
    "argument": planted("argument"),
    "template": planted("template"),
    "runbook": planted("runbook"),
    "configdrive": planted("configdrive"),
    "extra": planted("extra"),
    "instance": planted("instance"),
}


FORMS = (str, repr, json.dumps, quote, lambda text: repr(text.encode()))


def everything(task, word=None) -> str:
    """Return a text that repeats all that the node holds, in the forms that texts have."""
    node = task.node
    document = json.dumps([node.driver_info, node.instance_info, node.extra])
    held = [text for text in SECRETS.values() if json.dumps(text)[1:-1] in document]
    held += [node.driver_internal_info.get("agent_secret_token") or "none", word or "none"]
    once = " ".join(form(text) for text in held for form in FORMS)
    return once + json.dumps(once) + repr(once) + quote(once)


class Vendor(support.Vendor):
    """Steps that tell all they know, in every way that a step can."""

    got: ClassVar[list[object]] = []
    told_ready = threading.Event()

    WORD: ClassVar[dict[str, Any]] = {
        "word": {"description": "a secret", "required": True, "secret": True}
    }

    def _take(self, task, word):
        type(self).got.append((task.node.driver_info, word, task.node.instance_info))

    @base.deploy_step(priority=0, argsinfo=WORD)
    @base.clean_step(0, argsinfo=WORD)
    @base.service_step(0, argsinfo=WORD)
    def keep_it(self, task, word):
        """Take what was planted, and succeed."""
        self._take(task, word)
        task.report_progress(50, everything(task, word))

    @base.deploy_step(priority=0, argsinfo=WORD)
    @base.service_step(0, argsinfo=WORD)
    def keep_another(self, task, word):
        """Take what a template or a runbook brings."""
        self._take(task, word)

    @base.deploy_step(priority=0, argsinfo=WORD)
    @base.clean_step(0, argsinfo=WORD)
    @base.service_step(0, argsinfo=WORD)
    def tell_it(self, task, word):
        """Fail, and tell."""
        self._take(task, word)
        try:
            raise KeyError(everything(task, word))
        except KeyError as exc:
            failure = RuntimeError(everything(task, word), {"of": everything(task, word)})
            failure.add_note(everything(task, word))
            raise failure from exc

    @base.deploy_step(priority=0, argsinfo=WORD)
    def not_yet(self, task, word):
        """Wait for a reason that tells."""
        if not type(self).told_ready.is_set():
            type(self).told_ready.set()
            raise exceptions.StepNotReady(everything(task, word), after=0.01)
        raise RuntimeError(everything(task, word))

    @base.deploy_step(priority=0, argsinfo=WORD)
    def wait_and_tell(self, task, word):
        """Wait for the agent, who tells."""
        task.report_progress(10, everything(task, word))
        return states.DEPLOYWAIT


class Power(base.PowerInterface):
    """A BMC whose errors repeat how it was reached."""

    on = True

    def get_properties(self):
        return {"ipmi_password": "the password"}

    def validate(self, task):
        if task.node.extra.get("refuse"):
            raise exceptions.InvalidParameterValue(everything(task))

    def get_power_state(self, task):
        return states.POWER_ON

    def set_power_state(self, task, power_state, timeout=None):
        raise RuntimeError(everything(task))

    def reboot(self, task, timeout=None):
        raise RuntimeError(everything(task))


@pytest.fixture
def log():
    """The lines that the service writes at DEBUG."""
    lines: list[str] = []

    class Keeps(logging.Handler):
        def emit(self, record):
            lines.append(self.format(record))

    handler = Keeps(logging.DEBUG)
    handler.setFormatter(logs.Discreet(formatters.ContextFormatter()))
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield lines
    root.removeHandler(handler)
    root.setLevel(before)


@pytest.fixture
def service(start, sqlite):
    Vendor.got.clear()
    Vendor.told_ready.clear()
    return start(sqlite, vendor=Vendor, power=Power)


@pytest.fixture
def api(conf, service):
    return Api(conf, service.database, service.client)


def step(name, word="argument", **more):
    return {"interface": "vendor", "step": name, "args": {"word": SECRETS[word]}, **more}


@pytest.fixture
def node(api, service):
    made = api.post(
        "/v1/nodes",
        {
            "driver": "test-hardware",
            "name": "n1",
            "driver_info": {
                "ipmi_password": SECRETS["password"],
                "bmc": {"credentials": [{"any": SECRETS["nested"]}]},
                "redfish_address": f"https://admin:{SECRETS['url']}@bmc.example:443/x",
            },
            "extra": {"api_token": SECRETS["extra"]},
            "instance_info": {
                "image_source": f"http://u:{SECRETS['url']}@images.example/i.img",
                "registry_password": SECRETS["instance"],
            },
        },
        version=10,
    )
    assert made.status == 201, made
    port = {"address": support.MAC, "node_uuid": made.body["uuid"]}
    assert api.post("/v1/ports", port).status == 201
    return made.body


def provision(api, target, **more):
    answer = api.put("/v1/nodes/n1/states/provision", {"target": target, **more})
    assert answer.status == 202, answer
    return answer


def settled(service, *wanted):
    return support.settle(service.database, "n1", *wanted)


def test_a_planted_marker_arrives_at_the_step_and_nowhere_else(api, service, node, log):
    """F62, F63: whatever a full life of a node tells people holds none of its secrets."""
    answers = [json.dumps(node)]
    life(api, service, node, answers)
    read_everything(api, service, answers)

    arrived = json.dumps(Vendor.got)
    for where in SECRETS:
        if where != "extra":
            assert json.dumps(SECRETS[where])[1:-1] in arrived, f"{where} arrived changed"
    leaks = [found for text in answers for found in around(text)]
    leaks += [found for line in log for found in around(line)]
    leaks += [f"{place}: {found}" for place, found in in_the_record(service.database)]
    assert not leaks, "\n".join(dict.fromkeys(leaks))
    assert any("tell_it" in text for text in answers), "nothing was told at all"
    assert any("RuntimeError" in line for line in log), "the log tells nothing"


def life(api, service, node, answers):
    """Do with the node what there is, and fail in every way."""
    drive = {"user_data": SECRETS["configdrive"], "meta_data": {"k": SECRETS["configdrive"]}}
    keep = step("keep_it", priority=80)
    template = {"name": "CUSTOM_T", "steps": [step("keep_another", "template", priority=70)]}
    runbook = {"name": "CUSTOM_R", "steps": [step("keep_another", "runbook", order=1)]}
    for place, body in (("deploy_templates", template), ("runbooks", runbook)):
        made = api.post(f"/v1/{place}", body)
        assert made.status == 201, made
        answers.append(made.text)
    assert api.put("/v1/nodes/n1/traits", {"traits": ["CUSTOM_T", "CUSTOM_R"]}).status == 204
    patch = [{"op": "add", "path": "/instance_info/traits", "value": ["CUSTOM_T"]}]
    assert api.patch("/v1/nodes/n1", patch).status == 200

    provision(api, "active", deploy_steps=[keep], configdrive=drive)
    settled(service, states.ACTIVE)
    provision(api, "service", runbook="CUSTOM_R")
    settled(service, states.ACTIVE)
    provision(api, "service", service_steps=[step("tell_it")])
    settled(service, states.SERVICEFAIL)
    answers.append(api.get("/v1/nodes/n1").text)  # with the reason of its maintenance
    assert api.delete("/v1/nodes/n1/maintenance").status == 202
    provision(api, "deleted")
    settled(service, states.AVAILABLE)
    for name in ("tell_it", "not_yet"):
        provision(api, "active", deploy_steps=[step(name, priority=80)])
        settled(service, states.DEPLOYFAIL)
        answers.append(api.get("/v1/nodes/n1").text)
    told_by_the_agent(api, service, node, answers)
    provision(api, "deleted")
    settled(service, states.AVAILABLE)
    provision(api, "manage")
    settled(service, states.MANAGEABLE)
    provision(api, "clean", clean_steps=[step("tell_it")])
    settled(service, states.CLEANFAIL)
    refused(api, service, answers)


def told_by_the_agent(api, service, node, answers):
    """Let the agent tell its own token, and use a wrong one."""
    provision(api, "active", deploy_steps=[step("wait_and_tell", priority=80)])
    settled(service, states.DEPLOYWAIT)
    token = api.get("/v1/lookup?addresses=" + support.MAC).body["config"]["agent_token"]
    said = {"callback_url": "http://u:zQ7marker-cb@192.0.2.1:9/", "agent_version": "1"}
    for given in (f"{CORE}-wrong-token-of-somebody", token):
        body = {**said, "agent_token": given, "agent_status": "error"}
        body["agent_status_message"] = f"{token} {SECRETS['password']} {SECRETS['url']}"
        answers.append(api.post("/v1/heartbeat/n1", body).text)
    answers.append(api.get(f"/v1/nodes/n1?agent_token={CORE}").text)
    support.until(lambda: "error" in api.get("/v1/nodes/n1/runs").text)
    for place in ("", "/runs?plan=true", "/states", "/history?detail=true"):
        text = api.get(f"/v1/nodes/n1{place}").text
        assert token not in text
        answers.append(text)
    node = settled(service, states.DEPLOYWAIT, states.ACTIVE, states.DEPLOYFAIL)
    if node.provision_state == states.DEPLOYWAIT:
        provision(api, "abort")
        settled(service, states.DEPLOYFAIL)
    assert token not in api.get("/v1/nodes/n1/runs?plan=true").text
    assert token not in api.get("/v1/nodes/n1/history?detail=true").text


def refused(api, service, answers):
    """Make mistakes with secrets in them."""
    wrong = SECRETS["password"]
    change = "/v1/nodes/n1"
    for method, path, body in (
        ("PUT", f"{change}/states/power", {"target": "power off"}),
        ("PUT", f"{change}/states/provision", {"target": "clean", "clean_steps": wrong}),
        ("PUT", f"{change}/states/provision", {"target": "manage", "configdrive": wrong}),
        ("PUT", f"{change}/states/provision", {"target": "rescue", "rescue_password": wrong}),
        ("PATCH", change, [{"op": "add", "path": "/driver_info", "value": wrong}]),
        ("PATCH", change, [{"op": "add", "path": "/extra/refuse", "value": True}]),
        ("POST", "/v1/deploy_templates", {"name": "CUSTOM_X", "steps": [{"args": wrong}]}),
        ("POST", "/v1/heartbeat/n1", {"callback_url": wrong, "agent_token": wrong}),
    ):
        answers.append(api(method, path, body).text)
        support.settle(service.database, "n1", states.CLEANFAIL)
    bad = json.dumps({"driver": wrong})[:-3].encode()
    answers.append(api("POST", "/v1/nodes", raw=bad).text)
    answers.append(api.get("/v1/nodes/n1/validate").text)


def read_everything(api, service, answers):
    """Read every route that can be read, by every version of note."""
    database = service.database
    runs = api.get("/v1/nodes/n1/runs").body["runs"]
    history = api.get("/v1/nodes/n1/history").body["history"]
    names = {
        "/nodes/": "n1",
        "/ports/": api.get("/v1/ports").body["ports"][0]["uuid"],
        "/drivers/": "test-hardware",
        "/conductors/": api.get("/v1/conductors").body["conductors"][0]["hostname"],
        "/deploy_templates/": "CUSTOM_T",
        "/runbooks/": "CUSTOM_R",
        "run}": runs[0]["uuid"],
        "entry}": history[0]["uuid"],
    }
    services = call.Services(api.conf, database, service.client)
    read = 0
    for path, resource in app.resources(services).items():
        if not hasattr(resource, "on_get") or path.endswith("/stream"):
            continue
        for start, name in names.items():
            if path.startswith(start):
                path = re.sub(r"\{[^}]*\}", name, path, count=1)
        for run in [one["uuid"] for one in runs] if "{run}" in path else [""]:
            one = path.replace("{run}", run).replace("{entry}", history[0]["uuid"])
            one = re.sub(r"\{[^}]*\}", "x", one)
            for query in ("", "?detail=true", "?plan=true"):
                got = api.get(f"/v1{one}{query}", version=versions.MAX)
                answers.append(got.text)
                read += got.status == 200
    assert read > 30
    for one in runs:
        answers.append(json.dumps(one))


def around(text):
    """Return what stands around each marker in a text."""
    return [text[max(0, m.start() - 800) : m.end() + 40] for m in re.finditer(CORE, text)]


INTACT = {
    ("nodes", "driver_info"),
    ("nodes", "instance_info"),
    ("nodes", "extra"),
    ("nodes", "deploy_step"),
    ("nodes", "clean_step"),
    ("nodes", "service_step"),
    ("nodes", "agent_url"),
    ("step_runs", "plan"),
    ("step_runs", "request"),
    ("step_runs", "left_out"),
    ("deploy_templates", "steps"),
    ("runbooks", "steps"),
}
"""Columns that machines read: what is in them is what was given."""


def in_the_record(database):
    """Yield where a marker stands in the database that is not for machines."""
    with database.reading() as connection:
        for table in Base.metadata.sorted_tables:
            for row in connection.execute(sa.select(table)):
                for column, value in row._mapping.items():
                    if (table.name, str(column)) in INTACT:
                        continue
                    for found in around(str(value)):
                        yield f"{table.name}.{column}", found
