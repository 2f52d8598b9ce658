"""openstacksdk against a real service: the stories of ``sdk_peer.py``, in its own environment."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.peers import environments
from tests.peers.conftest import client_environment

PEER = Path(__file__).with_name("sdk_peer.py")
STORIES = re.findall(r"^@story\ndef (\w+)\(", PEER.read_text(), re.M)


@pytest.mark.parametrize("story", STORIES)
def test_story(service, story):
    endpoint = service.client.endpoint
    done = subprocess.run(
        [environments.programs("clients") / "python", PEER, endpoint, story],
        env=client_environment(endpoint),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_there_are_stories():
    assert {"life", "finding", "failures"} <= set(STORIES)
