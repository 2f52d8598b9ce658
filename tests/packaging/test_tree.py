"""What the tree promises: lists that match it, small modules, documented faults."""

import ast
import configparser
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploysteps import conf, steps

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "deploysteps"
MODULES = sorted(PACKAGE.rglob("*.py"))


def setup_cfg():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def test_every_package_is_listed():
    listed = setup_cfg()["options"]["packages"].split()
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in PACKAGE.rglob("__init__.py")}
    migrations = {"deploysteps.db.migrations", "deploysteps.db.migrations.versions"}
    assert set(listed) == found | migrations and len(listed) == len(set(listed))


def test_the_migrations_are_reached_by_a_link_that_git_keeps():
    link = PACKAGE / "db" / "migrations"
    assert link.is_symlink() and str(link.readlink()) == "../../alembic"
    assert not (ROOT / "alembic" / "__init__.py").exists()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_has_more_than_500_lines(path):
    assert len(path.read_text().splitlines()) <= 500


OPTIONAL = {"keystoneauth1", "keystonemiddleware"}
"""What is imported only where an extra was asked for; their names are those of their packages."""


def imported_distributions():
    names = set()
    for path in (*MODULES, *(ROOT / "alembic").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.add(node.module or "")
    tops = {name.partition(".")[0] for name in names}
    assert tops >= OPTIONAL
    tops -= {"deploysteps", "__future__", *sys.stdlib_module_names, *OPTIONAL}
    known = importlib.metadata.packages_distributions()
    return {known[top][0].lower().replace("_", "-").replace(".", "-") for top in tops}


def test_what_is_imported_is_required_and_nothing_else():
    required = {
        re.split(r"[<>=!~\[;]", line)[0].strip().lower().replace(".", "-").replace("_", "-")
        for line in setup_cfg()["options"]["install_requires"].split("\n")
        if line.strip()
    }
    assert imported_distributions() == required


def test_what_is_imported_where_an_extra_was_asked_for_is_in_one():
    extra = setup_cfg()["options.extras_require"]["keystone"]
    assert set(re.findall(r"^[a-z0-9]+", extra, re.M)) == OPTIONAL


def test_every_interface_type_has_fake_and_idle_entry_points():
    points = setup_cfg()["options.entry_points"]
    for kind in steps.INTERFACE_TYPES:
        names = {
            line.partition("=")[0].strip()
            for line in points[f"deploysteps.hardware.interfaces.{kind}"].split("\n")
        }
        assert "fake" in names and names & {"noop", f"no-{kind}"}


HEAVY = (
    "alembic",
    "cheroot",
    "falcon",
    "oslo_messaging",
    "requests",
    "sqlalchemy",
    "sushy",
    "tooz",
    "urllib3",
)


def test_the_drivers_base_imports_no_web_rpc_or_hardware_library():
    program = (
        "import sys, deploysteps.drivers.base\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not set(told) & set(HEAVY)
    loaded = subprocess.run(
        [sys.executable, "-c", program.replace("{name.partition('.')[0] for", "{name for")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    rooms = {name.split(".")[1] for name in loaded if name.startswith("deploysteps.")}
    assert not rooms & {"api", "cli", "conductor", "db"}


def test_every_option_is_read_somewhere():
    source = "\n".join(
        path.read_text() for path in MODULES if "conf" not in path.relative_to(PACKAGE).parts[0]
    )
    source += (ROOT / "deploysteps/conf/checks.py").read_text()
    for group, options in conf.list_opts():
        for option in options:
            if option.name == "state_path":  # the default of [database] connection has it
                continue
            stem = option.name
            for kind in steps.INTERFACE_TYPES:
                stem = stem.replace(f"_{kind}_interface", "_{kind}_interface")
            assert re.search(rf"\b{re.escape(stem)}(?!\w)", source), f"[{group.name}] {option.name}"


def catalogue():
    return set(re.findall(r"^- \*\*(F\d+) ", (ROOT / "doc" / "faults.rst").read_text(), re.M))


def test_the_catalogue_of_faults_is_whole():
    assert catalogue() == {f"F{number}" for number in range(1, 95)}


def test_tests_cite_faults_that_are_in_the_catalogue():
    cited = set()
    for path in (ROOT / "tests").rglob("*.py"):
        cited.update(re.findall(r"\bF\d{1,2}\b", path.read_text()))
    assert cited and cited <= catalogue()


def test_the_house_is_as_drawn():
    found = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout
