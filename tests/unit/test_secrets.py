"""Masking: by key, by declaration, by value, and in URLs; only copies."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploysteps import secrets
from deploysteps.secrets import MASK


@pytest.mark.parametrize(
    "key",
    ["password", "ipmi_password", "redfish_password", "snmp_community", "agent_secret_token",
     "configdrive", "PASSWORD", "admin_pass", "auth_key", "private_key", "api_key", "passphrase",
     "sshKeyPassphrase", "credentials", "kg_key"],
)  # fmt: skip
def test_a_key_that_names_a_secret_is_masked(key: str) -> None:
    assert secrets.masked({key: "hunter2", "plain": 1}) == {key: MASK, "plain": 1}


@pytest.mark.parametrize("key", ["ipmi_address", "passthrough", "keyboard", "bypass_boot"])
def test_a_key_that_only_sounds_like_one_is_not(key: str) -> None:
    assert secrets.masked({key: "value"}) == {key: "value"}


STEP = {
    "interface": "bios",
    "step": "set",
    "args": {"pin": "12345", "mode": "uefi", "password": None},
    "argsinfo": {"pin": {"description": "d", "secret": True}, "password": {"description": "d"}},
}


def test_arguments_that_are_declared_secret_are_masked_and_their_description_is_not() -> None:
    shown = secrets.masked({"deploy_steps": [STEP]})["deploy_steps"][0]
    assert shown["args"] == {"pin": MASK, "mode": "uefi", "password": None}
    assert shown["argsinfo"] == STEP["argsinfo"]


def test_masking_never_changes_what_it_is_given() -> None:
    """F77."""
    before = copy.deepcopy(STEP)
    secrets.masked(STEP)
    assert before == STEP


def test_what_a_node_holds_is_masked_by_value_wherever_it_stands() -> None:
    """F76."""
    mask = secrets.Masker(
        {"ipmi_password": "hunter2!", "url": "http://root:calvin@bmc/redfish"},
        {"configdrive": {"user_data": {"key": "deadbeef"}}},
        STEP,
    )
    text = "hunter2! root:calvin calvin deadbeef 12345 and the rest"
    assert mask.text(text) == f"{MASK} {MASK} {MASK} {MASK} {MASK} and the rest"


def test_a_secret_inside_another_leaves_no_tail() -> None:
    mask = secrets.Masker({"password": "long-secret"}, {"token": "long-secret-and-more"})
    assert mask.text("x long-secret-and-more y") == f"x {MASK} y"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at http://root:pw@bmc/x", f"at http://{MASK}@bmc/x"),
        ("at ipmi+ssh://admin@bmc", f"at ipmi+ssh://{MASK}@bmc"),
        ("GET /x?wait=true&agent_token=abc HTTP", f"GET /x?wait=true&agent_token={MASK} HTTP"),
        ("https://h/?X-Amz-Signature=12&b=1", f"https://h/?X-Amz-Signature={MASK}&b=1"),
        ("mail me@here.org, see http://h/a@b", "mail me@here.org, see http://h/a@b"),
    ],
)  # fmt: skip
def test_urls_lose_their_user_and_their_tokens(text: str, shown: str) -> None:
    assert secrets.masked_urls(text) == shown
    assert secrets.masked({"a": [text]}) == {"a": [shown]}


@pytest.mark.parametrize(
    "text",
    ["http://" + "a" * 10**6, "a" * 10**6 + "://", "://" * 10**5, "?" * 10**6 + "token=",
     "?token" * 10**5, "&a=" * 10**5, "http://" + ":" * 10**6 + "@"],
)  # fmt: skip
def test_a_huge_text_costs_time_in_proportion(text: str) -> None:
    """F58: five megabytes of exception text must not hang the one who fails the node."""
    secrets.masked_urls(text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


@given(json_values, st.text(min_size=8, max_size=20, alphabet="abcdef0123456789"))
def test_a_planted_secret_never_survives(value: Any, secret: str) -> None:
    held = {"a": value, "deep": [{"my_password": {"inner": [secret]}}]}
    assert secret not in repr(secrets.masked(held))
    assert secret not in secrets.Masker(held).text(f"before {secret} after {secret}")
