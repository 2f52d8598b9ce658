"""The commands of the page on real clients, with the real clients."""

from __future__ import annotations

import dataclasses
import os
import shutil
from contextlib import ExitStack
from pathlib import Path

from tests.docs.blocks import Block, Command
from tests.docs.test_examples import DOC, PEERS, Page
from tests.peers import environments
from tests.peers.machines import LAUNCHER

PAGE = DOC / "guides" / "clients.rst"
ADDRESS = "http://127.0.0.1:6385"


class PeersPage(Page):
    """Tries all blocks, with the peers' environments beside them and the service's own address."""

    def __init__(self, path: Path, folder: Path, stack: ExitStack) -> None:
        super().__init__(path, folder, stack)
        self.blocks = [
            dataclasses.replace(block, how=block.how.removeprefix(PEERS).strip())
            for block in self.blocks
        ]

    def _here(self, text: str) -> str:
        return text.replace(ADDRESS, self.service.client.endpoint) if self.service else text

    def file(self, block: Block) -> None:
        super().file(dataclasses.replace(block, code=self._here(block.code)))

    def command(self, command: Command, code: int, background: bool) -> None:
        super().command(
            dataclasses.replace(command, text=self._here(command.text)), code, background
        )


def test_the_page_on_clients(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("OS_"):
            monkeypatch.delenv(name)
    for name in ("clients", "agent"):
        (tmp_path / name).symlink_to(environments.programs(name).parent)
    shutil.copy(LAUNCHER, tmp_path)
    with ExitStack() as stack:
        page = PeersPage(PAGE, tmp_path, stack)
        page.run()
    assert (tmp_path / "done").read_text().split() == ["peer_sleep", "peer_mark"]


def test_the_page_names_the_versions_that_are_tried():
    text = PAGE.read_text()
    for package in environments.PACKAGES["clients"] + environments.PACKAGES["agent"]:
        (pin,) = [line for line in environments.PINS.read_text().split() if f"{package}==" in line]
        assert pin in text
