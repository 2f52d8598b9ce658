"""Every example of the documentation is tried, in the order in which it stands on its page.

python
    Named: written to a file of that name; ``test_*.py`` is run by pytest. Without a name:
    run, in one namespace for the page.
console
    Each command is run by one bash; what stands below it is what it prints (``...``: anything).
    ``deploysteps serve`` starts the service, or starts it again.
ini
    Named ``deploysteps.conf``: the service's configuration from its next start. With another
    name: a file. Without one: read and checked as a configuration.
json, toml
    Parsed; named ones are written to files.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from deploysteps import conf as configuration
from deploysteps.cli.app import COMMANDS
from deploysteps.cli.local_service import LocalService
from deploysteps.drivers.factory import Registry
from tests.docs.blocks import Block, Command, commands, literals, of_text
from tests.docs.shell import Shell

pytestmark = pytest.mark.docs

DOC = Path(__file__).resolve().parents[2] / "doc"
PAGES = sorted(path for path in DOC.rglob("*.rst") if "_build" not in path.parts)
TRIED = [page for page in PAGES if any(True for _ in of_text(page.read_text()))]
NOT_RUN = "not run: "
PEERS = "peers"
ASKING = list(COMMANDS)[list(COMMANDS).index("node") : list(COMMANDS).index("events") + 1]
"""Commands that speak to a service: from ``node`` to ``events``, as their help says."""

CLOCKS: dict[str, dict[str, object]] = {
    "DEFAULT": {"host": "conductor-1"},
    "api": {"ramdisk_heartbeat_timeout": 1},
    "conductor": {"step_poll_interval": 0.1, "recovery_interval": 1},
}
"""What makes a service quick enough for tests."""


def name_of(page: Path) -> str:
    return str(page.relative_to(DOC).with_suffix(""))


def settings_of(text: str) -> dict[str, dict[str, object]]:
    parser = configparser.ConfigParser(interpolation=None, default_section="no such section")
    parser.read_string(text)
    return {group: dict(parser[group]) for group in parser.sections()}


class Page:
    """Tries the blocks of a page, in a folder of its own."""

    def __init__(self, path: Path, folder: Path, stack: ExitStack) -> None:
        self.path, self.folder, self.stack = path, folder, stack
        self.blocks = list(of_text(path.read_text()))
        self.namespace: dict[str, Any] = {"__name__": f"doc_{path.stem}"}
        self.settings: dict[str, dict[str, object]] = {}
        self.service: LocalService | None = None
        self.shell: Shell | None = None

    def run(self) -> None:
        for block in self.blocks:
            if block.language == "text" or block.how.startswith((NOT_RUN, PEERS)):
                continue
            assert block.how == "background" or re.fullmatch(r"(exit \d+)?", block.how), block.how
            _TRY[block.language](self, block)

    def where(self, line: int) -> str:
        return f"{self.path}:{line}"

    # --- python ---------------------------------------------------------------------

    def python(self, block: Block) -> None:
        if block.name is None:
            code = "\n" * (block.line - 1) + block.code
            exec(compile(code, str(self.path), "exec"), self.namespace)
            return
        self.file(block)
        if block.name.startswith("test_"):
            found = self.program("-m", "pytest", "-q", "-p", "no:cacheprovider", block.name)
            assert found.returncode == 0, f"{self.where(block.line)}\n{found.stdout}"
            return
        stem = block.name.removesuffix(".py")
        others = [other.code for other in self.blocks if other is not block]
        assert any(stem in code for code in others), f"nothing uses {block.name}"

    def program(self, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *args],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    # --- files -----------------------------------------------------------------------

    def file(self, block: Block) -> None:
        assert block.name
        path = self.folder / block.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.code)

    def ini(self, block: Block) -> None:
        if block.name == "deploysteps.conf":
            self.settings = settings_of(block.code)
        elif block.name:
            self.file(block)
            return
        check_settings(block.code, self.folder / "checked.conf", self.where(block.line))

    def json(self, block: Block) -> None:
        json.loads(block.code)
        if block.name:
            self.file(block)

    def toml(self, block: Block) -> None:
        tomllib.loads(block.code)
        if block.name:
            self.file(block)

    # --- console -----------------------------------------------------------------------

    def console(self, block: Block) -> None:
        listed = list(commands(block))
        assert listed, self.where(block.line)
        for number, command in enumerate(listed):
            last = number == len(listed) - 1
            code = int(block.how.removeprefix("exit ")) if last and "exit" in block.how else 0
            self.command(command, code, block.how == "background")

    def command(self, command: Command, code: int, background: bool) -> None:
        shell = self.opened()
        text = command.text
        if text == "deploysteps serve":
            self.serve()
            return
        if text == "pip install .":
            # Into a folder of its own: the environment of the tests is not to change.
            offline = "--no-deps --no-build-isolation --no-index --quiet"
            text = f"{sys.executable} -m pip install {offline} --upgrade --target installed ."
            # stevedore remembers what was installed, and its cache does not tell two
            # times apart that are less than two minutes away from each other.
            shutil.rmtree(self.folder / "cache", ignore_errors=True)
        if re.search(rf"\bdeploysteps ({'|'.join(ASKING)})\b", text):
            self.service or self.serve()
        if background:
            shell.background(text)
            return
        found, printed = shell.run(text)
        told = f"{self.where(command.line)}: {command.text}\nexit {found}\n{printed}"
        assert found == code, told
        if command.output:
            assert fits(command.output, printed), f"{told}\n--- and not:\n{command.output}"

    def opened(self) -> Shell:
        if self.shell is None:
            own = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", **own_folders(self.folder)}
            self.shell = self.stack.enter_context(Shell(self.folder, own))
        return self.shell

    def serve(self) -> None:
        """Start the service, with the page's configuration."""
        if self.service is not None:
            self.service.stop()
        merged = {
            group: {**CLOCKS.get(group, {}), **self.settings.get(group, {})}
            for group in {**CLOCKS, **self.settings}
        }
        merged["api"].pop("port", None)  # any free one
        self.service = LocalService(self.folder, merged)
        with installed(self.folder):
            self.stack.enter_context(self.service)
        self.opened().export("OS_ENDPOINT", self.service.client.endpoint)


_TRY: dict[str, Callable[[Page, Block], None]] = {
    "python": Page.python,
    "console": Page.console,
    "ini": Page.ini,
    "json": Page.json,
    "toml": Page.toml,
}


def own_folders(folder: Path) -> dict[str, str]:
    """Return variables: where a page installs, and where its processes keep caches."""
    return {"PYTHONPATH": f"{folder}/installed", "XDG_CACHE_HOME": f"{folder}/cache"}


@contextmanager
def installed(folder: Path) -> Iterator[None]:
    """Let a service find what a page installed."""
    own = own_folders(folder)
    before = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def fits(expected: str, printed: str) -> bool:
    """Tell whether a text is what is expected, where ``...`` is anything and blanks are alike."""
    parts = [re.escape(" ".join(part.split())) for part in expected.split("...")]
    return re.fullmatch(".*".join(parts).strip(), " ".join(printed.split())) is not None


def check_settings(text: str, path: Path, where: str) -> None:
    """Read a configuration as a service does, and load the drivers that it enables."""
    path.write_text(text)
    found = cfg.ConfigOpts()
    configuration.register(found)
    configuration.setup(config_files=[str(path)], conf=found)
    configuration.check(found)
    assert configuration.unknown(found) == [], where
    found.set_override("enabled_hardware_types", ["fake-hardware"])
    Registry(found)


@pytest.mark.slow
@pytest.mark.parametrize("page", TRIED, ids=name_of)
def test_the_examples_of_a_page_work(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    with ExitStack() as stack:
        Page(page, tmp_path, stack).run()
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", None)):
            del sys.modules[name]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_is_tried_or_says_why_not(page):
    text = page.read_text()
    assert literals(text) == [], "write code-block, so that it is tried"
    for block in of_text(text):
        assert block.language in {*_TRY, "text"}, f"{page}:{block.line}"
        if block.how.startswith(NOT_RUN):
            assert len(block.how) > len(NOT_RUN) + 10, f"{page}:{block.line}"


def test_few_blocks_are_not_run():
    blocks = [block for page in PAGES for block in of_text(page.read_text())]
    left = [block for block in blocks if block.how.startswith(NOT_RUN)]
    assert len(left) * 20 <= len(blocks)
