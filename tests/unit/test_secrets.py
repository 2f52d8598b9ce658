"""Masking: by key, by declaration, by value, and in URLs; only copies."""

from __future__ import annotations

import copy
import json
import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oslo_utils import strutils

from deploysteps import secrets
from deploysteps.secrets import MASK
from deploysteps.texts import scrub


@pytest.mark.parametrize(
    "key",
    ["password", "ipmi_password", "redfish_password", "snmp_community", "agent_secret_token",
     "configdrive", "PASSWORD", "admin_pass", "auth_key", "private_key", "api_key", "passphrase",
     "sshKeyPassphrase", "credentials", "kg_key"],
)  # fmt: skip
def test_a_key_that_names_a_secret_is_masked(key: str) -> None:
    assert secrets.masked({key: "hunter2", "plain": 1}) == {key: MASK, "plain": 1}


@pytest.mark.parametrize("key", strutils._SANITIZE_KEYS)
@pytest.mark.parametrize("shape", ["{}", "my_{}", "{}_1"])
def test_what_the_field_masks_is_masked(key: str, shape: str) -> None:
    """Ironic shows driver_info by ``mask_dict_password``; its list may grow."""
    held = {shape.format(key): "hunter2"}
    assert strutils.mask_dict_password(held) != held
    assert secrets.masked(held) == {shape.format(key): MASK}


@pytest.mark.parametrize(
    "key",
    ["private-key", "api-key", "auth-key", "access_key", "ssh_key_contents", "sshkey", "ssl_key",
     "tls_key", "cert_key", "authorization", "ipmi_k_g_key", "kg_key", "pswd", "bmc_pin",
     "Cookie", "x-auth-token", "temp_url_key", "client_key", "pw", "bmc_pw"],
)  # fmt: skip
def test_other_spellings_of_what_is_masked_are_masked(key: str) -> None:
    assert secrets.masked({key: "hunter2"}) == {key: MASK}
    assert secrets.masked_json(json.dumps({key: "hunter2"})) == json.dumps({key: MASK})


@pytest.mark.parametrize(
    "key",
    ["public_key", "ssh_public_key", "key", "sort_key", "monkey", "author", "authorized", "pin",
     "pinned", "spins", "fsid", "keys"],
)  # fmt: skip
def test_what_is_no_secret_is_shown(key: str) -> None:
    assert secrets.masked({key: "shown"}) == {key: "shown"}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"name": "admin_password", "value": "hunter2"}, {"name": "admin_password", "value": MASK}),
        ({"name": "Boot", "value": "hunter2"}, None),
        ({"name": "admin_password", "value": None}, None),
        ({"name": "admin_password", "values": "a"}, None),
        ({"name": ["password"], "value": "hunter2"}, None),
    ],
)
def test_a_setting_is_secret_by_its_name(value: Any, shown: Any) -> None:
    """The field's form for settings of a BIOS."""
    assert secrets.masked([{"a": value}]) == [{"a": value if shown is None else shown}]
    told = secrets.Masker({"settings": [value]}).text("it is hunter2")
    assert told == (f"it is {MASK}" if shown else "it is hunter2")


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
    assume(secret not in repr(value))  # eight zeros also stand in large numbers
    held = {"a": value, "deep": [{"my_password": {"inner": [secret]}}]}
    assert secret not in repr(secrets.masked(held))
    assert secret not in secrets.Masker(held).text(f"before {secret} after {secret}")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://root:pa@hunter2@10.0.0.1/x", f"https://{MASK}@10.0.0.1/x"),
        ("https://root:hunter2@h/a@b", f"https://{MASK}@h/a@b"),
        ("see https://h?to=me@here.org", "see https://h?to=me@here.org"),
        ("https://h/?temp_url_sig=12&temp_url_expires=1",
         f"https://h/?temp_url_sig={MASK}&temp_url_expires=1"),
        ("https://h/?sv=1&sig=12%3D", f"https://h/?sv=1&sig={MASK}"),
        ("https://h/?design=a&sigma=b&config=c", "https://h/?design=a&sigma=b&config=c"),
        ("https://h/?bmc_pwd=12&cwd=x", f"https://h/?bmc_pwd={MASK}&cwd=x"),
        ("http://h/?a=1&api_key=12#b", f"http://h/?a=1&api_key={MASK}"),
        ("http://h/?apikey=12&pass=34&auth=56", f"http://h/?apikey={MASK}&pass={MASK}&auth={MASK}"),
        ("http://h/?a=1#access_token=12", f"http://h/?a=1#access_token={MASK}"),
        ("http://h/?author=a&passed=b&key=c", "http://h/?author=a&passed=b&key=c"),
        ("http://root:pa/ss@h/x", f"http://{MASK}@h/x"),
        ("http://root:pa?s#s@h/x", f"http://{MASK}@h/x"),
        ("http://:pa/ss@h/x and me@here", f"http://{MASK}@h/x and me@here"),
        ("http://h:80/a@b http://h:/a@b", "http://h:80/a@b http://h:/a@b"),
        ("http://[::1]:80/a@b", "http://[::1]:80/a@b"),
        ('{"a": "http://h:80", "b": "x@y"}', '{"a": "http://h:80", "b": "x@y"}'),
    ],
)  # fmt: skip
def test_urls_lose_all_of_their_user_and_their_signatures(text: str, shown: str) -> None:
    """F76."""
    assert secrets.masked_urls(text) == shown


@pytest.mark.parametrize("key", ["bmc_pwd", "PWD", "pwd"])
def test_a_key_that_ends_in_pwd_names_a_secret(key: str) -> None:
    """F76."""
    assert secrets.masked({key: "hunter2"}) == {key: MASK}
    assert secrets.masked({"cwd": "/srv"}) == {"cwd": "/srv"}


def _quoted_by() -> dict[str, Callable[[str], str]]:
    return {
        "as it is": str,
        "repr": repr,
        "repr beside a quote": lambda text: repr(f"it's {text}"),
        "repr beside both quotes": lambda text: repr(f"it's \"{text}"),
        "bytes": lambda text: repr(text.encode("utf-8", "surrogatepass")),
        "JSON": lambda text: json.dumps({"p": text}),
        "JSON, not ASCII": lambda text: json.dumps({"p": text}, ensure_ascii=False),
        "path": lambda text: quote(text, errors="surrogatepass"),
        "part of a path": lambda text: quote(text, safe="", errors="surrogatepass"),
        "form": lambda text: quote_plus(text, errors="surrogatepass"),
        "scrubbed": scrub,
    }


ODD = ["hunter2", "pa'ss", 'pa"ss', "a'b\"c\\d", "two\nlines\t.", "été 漢字", "a/b c+d%e&f",
       "nul\0tail", "lone\ud800tail", "\\'\\\"", "\U0001f600key"]  # fmt: skip


@pytest.mark.parametrize("how", list(_quoted_by()))
@pytest.mark.parametrize("secret", ODD)
def test_a_secret_is_masked_however_programs_quote_it(secret: str, how: str) -> None:
    """F76."""
    shown = secrets.Masker({"password": secret}).text(_quoted_by()[how](secret))
    assert MASK in shown
    assert not any(part in shown for part in re.findall(r"\w{2,}", secret))


def test_keys_inside_a_secret_argument_are_secrets_and_words_are_not() -> None:
    """F76."""
    step = {
        "args": {"users": {"hunter2hunter2": {"username": "joe", "password": "x"}}, "size": 10},
        "argsinfo": {
            "users": {
                "description": "d",
                "secret": True,
                "schema": {"additionalProperties": {"properties": {"username": {}}}},
            },
            "size": {"description": "d"},
        },
    }
    text = secrets.Masker(step).text("user hunter2hunter2: username joe, no password, size 10")
    assert text == f"user {MASK}: username joe, no password, size 10"


def test_many_odd_secrets_cost_time_in_proportion() -> None:
    """F58."""
    held = {f"{n}_password": f"p'\"a/s é{n}" for n in range(50)}
    held["configdrive"] = "a/b+" * 2_000_000
    begun = time.monotonic()
    mask = secrets.Masker(held)
    assert "p'" not in mask.text("x" * 10**6 + held["7_password"])
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize("start", ["a://b:", "a://", "?", "&api_", "?pass"])
def test_a_text_that_begins_a_secret_everywhere_takes_little_time(start: str) -> None:
    """It may come from a machine, and nothing else goes on meanwhile."""
    text = start * (2**19 // len(start)) + "@="
    begun = time.process_time()
    secrets.masked_urls(text)
    assert time.process_time() - begun < 1


@pytest.mark.parametrize(
    "secret", ['pass\\"word', r"ab\\\cd99", r"\\server\share", '"abcd"', "\n\nabcd"]
)
@pytest.mark.parametrize("filler", ["\\", "%5c", '\\"', "%255C", "x"])
def test_a_text_full_of_backslashes_takes_little_time(secret: str, filler: str) -> None:
    """An agent knows the arguments of its steps, and may say anything of them."""
    mask = secrets.Masker({"password": secret})
    text = secret.strip('\\"\n') + secret[:4] + filler * (2**18 // len(filler))
    begun = time.process_time()
    assert filler in mask.text(text)
    assert time.process_time() - begun < 2


@pytest.mark.parametrize("secret", ["\\\\\\\\", "\\\\\\a", "a\\\\\\", "\\\\a\\"])
def test_a_secret_of_backslashes_hides_nothing_else(secret: str) -> None:
    """Also a short one is found in what was quoted twice, and one of them is no secret."""
    mask = secrets.Masker({"password": secret})
    shown = mask.text(f"a man, C:\\x, {json.dumps(json.dumps(secret))}")
    assert shown.startswith("a man, C:\\x, ") and MASK in shown


QUOTINGS: list[Callable[[str], str]] = [
    repr, json.dumps, quote, quote_plus, lambda text: repr(text.encode()), lambda text: f"<{text}>",
    lambda text: json.dumps(text, ensure_ascii=False), lambda text: ascii(text),
]  # fmt: skip


@given(
    st.text(min_size=2, max_size=12, alphabet=" '\"\\+%&\n\té€-_.,;:[]{}~ab7"),
    st.lists(st.sampled_from(QUOTINGS), max_size=3),
)
def test_a_secret_is_masked_however_often_it_was_quoted(
    odd: str, quotings: list[Callable[[str], str]]
) -> None:
    """Exceptions quote what they repeat, and logs and other exceptions quote them again."""
    core = "Xq93"
    text = f"{core}{odd}{core}"
    secret = text
    for quoting in quotings:
        text = quoting(text)
    shown = secrets.Masker({"password": secret}).text(f"before {text} after")
    assert core not in shown
    assert MASK in shown and "before" in shown and "after" in shown
