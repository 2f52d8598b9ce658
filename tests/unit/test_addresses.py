"""Which addresses nobody but this machine reaches: what ``noauth`` may listen on."""

from __future__ import annotations

import pytest

from deploysteps.addresses import is_loopback


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.255.0.9", "::1", "0:0:0:0:0:0:0:1", "localhost", "LocalHost."]
)
def test_only_this_machine_reaches_its_own_addresses(host):
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "10.0.0.1", "fe80::1", "127.example.org", "localhost.example.org", "[::1]"],
)
def test_others_may_reach_any_other(host):
    """A name is not an address, whatever it begins with."""
    assert not is_loopback(host)
