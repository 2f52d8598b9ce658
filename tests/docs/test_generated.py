"""What the documentation makes from the code is all of it."""

import sys
from pathlib import Path

import pytest

from deploysteps import conf, releases, reserved, states, steps
from deploysteps.cli.app import COMMANDS
from deploysteps.cli.errors import MEANINGS

pytest.importorskip("sphinx")
DOC = Path(__file__).resolve().parents[2] / "doc"
sys.path.insert(0, str(DOC / "_ext"))

from from_the_code import api, commands, settings, tables  # noqa: E402

PAGES = "\n".join(path.read_text() for path in DOC.rglob("*.rst") if "_build" not in path.parts)


def test_every_state_and_every_transition_is_in_the_tables():
    told = tables.states_table()
    assert all(f"* - ``{name}``\n" in told for name in states.STATES)
    rows = tables.transitions_table().count("\n   * - ") - 1
    assert rows == len(states.TRANSITIONS)


def test_a_drawing_has_every_way_in_and_out_of_a_state():
    drawn = tables.diagram("all")
    for move in states.TRANSITIONS:
        assert any(
            line.rstrip().endswith(f"▶ {move.end}") and move.event in line.partition("│ ──")[2]
            for line in drawn.splitlines()
        ), move
        assert any(
            line.strip().startswith(f"{move.start} ──") and move.event in line.partition("▶")[0]
            for line in drawn.splitlines()
        ), move


@pytest.mark.parametrize("flow", list(steps.FLOWS))
def test_every_flow_is_drawn_and_told_of(flow):
    assert f".. state-diagram:: {flow}\n" in PAGES
    for table in (tables.flows_table(), tables.calls_table(), tables.flow_settings_table()):
        assert f"**{flow}**" in table


def test_every_reserved_step_release_owner_and_exit_code_is_in_its_table():
    assert all(f"``{name}``" in tables.reserved_table() for name in reserved.RESERVED)
    assert all(f"``{name}``" in tables.releases_table() for name in releases.RELEASES)
    assert all(f"``{owner}``" in tables.owners_table() for owner in steps.OWNERS)
    assert all(f"* - {int(code)}\n" in tables.exit_codes_table() for code in MEANINGS)


def test_every_table_stands_on_a_page():
    for name in tables.TABLES:
        assert f".. from-the-code:: {name}\n" in PAGES, name


@pytest.mark.parametrize("group", [group.name for group, _ in conf.list_opts()])
def test_every_option_is_in_the_reference(group):
    assert f".. settings-of:: {group}\n" in PAGES
    told = settings.of_group(group)
    for name, options in conf.list_opts():
        if name.name == group:
            assert all(f".. setting:: [{group}] {option.name}\n" in told for option in options)


def test_every_command_is_in_the_reference():
    told = commands.reference()
    for name in COMMANDS:
        assert f"deploysteps {name}" in told
    assert ".. command:: deploysteps node resume\n" in told and "--skip" in told


def test_every_operation_and_every_schema_of_the_rest_api_is_in_its_reference():
    assert ".. rest-operations::\n" in PAGES and ".. rest-schemas::\n" in PAGES
    document, told, shapes = api.document(), api.operations(), api.schemas()
    for path, place in document["paths"].items():
        for method, operation in place.items():
            if method != "parameters":
                heading = f"{method.upper()} {path}".replace("_", "\\_")
                part = f"\n{told}".split(f"\n{heading}\n~", 1)[1].split("\n~~~", 1)[0]
                assert f"\n{operation['summary']}.\n" in part, heading
                assert operation.get("x-rule", "for everybody") in part, heading
                for argument in operation["parameters"]:
                    if argument.get("in") == "query":
                        assert f"* - ``{argument['name']}``\n" in part, heading
    for name, schema in document["components"]["schemas"].items():
        part = shapes.split(f".. _schema-{name}:\n", 1)[1].split("\n.. _schema-", 1)[0]
        for member, shape in schema.get("properties", {}).items():
            row = part.split(f"* - ``{member}``", 1)[1].split("\n   * ", 1)[0]
            since = shape.get("x-since", "1.1")
            assert since == "1.1" or f"- {since}\n" in f"{row}\n", member
