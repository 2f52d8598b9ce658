"""F40: 0, negative, huge and nonsense settings, for every option that is a number."""

import pytest
from oslo_config import cfg, types

from deploysteps import conf, exceptions

HUGE = "1" + "0" * 30


def _numbers():
    for group, options in conf.list_opts():
        for option in options:
            if isinstance(option.type, types.Integer | types.Float):
                yield pytest.param(group.name, option, id=f"{group.name}.{option.name}")


NUMBERS = list(_numbers())


def fresh():
    settings = cfg.ConfigOpts()
    conf.register(settings)
    return settings


def checked(monkeypatch, group, name, value):
    monkeypatch.setenv(f"OS_{group.upper()}__{name.upper()}", value)
    settings = conf.setup(conf=fresh())
    # A heartbeat interval may be anything that the timeout is longer than.
    if name == "heartbeat_interval":
        settings.set_override("heartbeat_timeout", 366 * 86400, group="conductor")
    if name == "heartbeat_timeout":
        settings.set_override("heartbeat_interval", 0.1, group="conductor")
    conf.check(settings)
    return settings[group][name]


@pytest.mark.parametrize(("group", "option"), NUMBERS)
def test_every_number_has_two_bounds_and_no_negative_is_allowed(group, option):
    assert option.type.min is not None and option.type.min >= 0
    assert option.type.max is not None


@pytest.mark.parametrize(("group", "option"), NUMBERS)
def test_zero_is_allowed_only_where_the_help_says_what_it_means(group, option):
    if option.type.min == 0:
        assert "0" in option.help or "percent" in option.help


@pytest.mark.parametrize("value", ["-1", "-0.5", HUGE, "x", "", " ", "nan", "inf", "1e400", "None"])
@pytest.mark.parametrize(("group", "option"), NUMBERS)
def test_nonsense_is_refused_and_named(monkeypatch, group, option, value):
    with pytest.raises(exceptions.ConfigurationError) as caught:
        checked(monkeypatch, group, option.name, value)
    told = str(caught.value)
    assert f"[{group}] {option.name} (OS_{group.upper()}__{option.name.upper()}" in told
    assert "allowed: " in told and "from" in told


@pytest.mark.parametrize(("group", "option"), NUMBERS)
def test_zero_is_taken_or_refused_as_the_bounds_say(monkeypatch, group, option):
    if option.type.min == 0:
        assert checked(monkeypatch, group, option.name, "0") == 0
    else:
        with pytest.raises(exceptions.ConfigurationError, match=option.name):
            checked(monkeypatch, group, option.name, "0")


@pytest.mark.parametrize("end", ["min", "max"])
@pytest.mark.parametrize(("group", "option"), NUMBERS)
def test_both_ends_are_taken(monkeypatch, group, option, end):
    value = getattr(option.type, end)
    assert checked(monkeypatch, group, option.name, str(value)) == value


@pytest.mark.parametrize(("group", "option"), NUMBERS)
def test_an_override_from_a_program_is_held_to_the_bounds_too(group, option):
    settings = conf.setup(conf=fresh())
    with pytest.raises(ValueError):
        settings.set_override(option.name, -1, group=None if group == "DEFAULT" else group)
