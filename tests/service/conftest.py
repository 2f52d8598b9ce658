"""What is tested here runs as a process of its own, or with sockets and threads as one does."""

from __future__ import annotations

from pathlib import Path

import pytest

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder: they take long, and have a target of their own."""
    for item in items:
        if _HERE in item.path.parents and not item.get_closest_marker("proof"):
            item.add_marker(pytest.mark.process)
