"""The wheel carries all that is needed, the migrations above all."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(root, tmp_path_factory):
    """Build from a copy, so that the checkout stays clean."""
    source = tmp_path_factory.mktemp("source")
    for name in ("setup.cfg", "pyproject.toml", "README.rst", "LICENSE"):
        shutil.copy(root / name, source / name)
    for name in ("deploysteps", "alembic"):
        shutil.copytree(
            root / name,
            source / name,
            symlinks=True,
            ignore=shutil.ignore_patterns("__pycache__", "*.pyc"),
        )
    out = tmp_path_factory.mktemp("out")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, source],
        check=True,
        capture_output=True,
        text=True,
    )
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def fresh(wheel, tmp_path_factory):
    """A virtual environment with the wheel; what it requires is lent by ours."""
    folder = tmp_path_factory.mktemp("fresh") / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    packages = Path(
        sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    )
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", folder / "bin" / "python"),
            *("install", "--quiet", "--no-deps", "--no-index", wheel),
        ],
        check=True,
    )
    # Appended to the path: the wheel's own copy comes first, and no line of ours
    # is an import that would bring an editable install along.
    (packages / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def run(fresh, folder, *args):
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        [fresh / "bin" / args[0], *args[1:]],
        cwd=folder,
        env={k: v for k, v in environment.items() if not (k.startswith("OS_") and "__" in k)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_wheel_has_the_migrations_and_nothing_at_the_top(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "deploysteps/db/migrations/env.py" in names
    assert any(name.startswith("deploysteps/db/migrations/versions/0001") for name in names)
    assert "deploysteps/db/migrations/script.py.mako" in names
    assert "deploysteps/py.typed" in names
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"deploysteps", "deploysteps-0.1.0.dist-info"}


def test_an_empty_folder_gets_a_schema(fresh, tmp_path):
    where = run(fresh, tmp_path, "python", "-c", "import deploysteps; print(deploysteps.__file__)")
    assert str(fresh) in where.stdout
    made = run(fresh, tmp_path, "deploysteps", "db", "upgrade", "--json")
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "var" / "deploysteps.sqlite").exists()
    assert '"current": null' not in made.stdout


def test_plugins_are_found(fresh, tmp_path):
    listed = run(fresh, tmp_path, "deploysteps", "steps", "list", "--driver", "fake-hardware")
    assert listed.returncode == 0, listed.stderr
    assert "wait_for_agent" in listed.stdout
