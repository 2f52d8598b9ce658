import pytest
from oslo_config import cfg

from deploysteps import conf, exceptions, steps
from deploysteps.conf.types import Network, Seconds, StepPriority


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def fresh(config_files=None, args=None):
    settings = cfg.ConfigOpts()
    conf.register(settings)
    return conf.setup(args, config_files, settings)


def written(tmp_path, text, name="some.conf"):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def all_options():
    return [(group.name, option) for group, options in conf.list_opts() for option in options]


def test_the_defaults_are_good():
    settings = fresh()
    conf.check(settings)
    assert conf.unknown(settings) == []
    assert settings.enabled_hardware_types == ["fake-hardware"]
    assert settings.api.host_ip == "127.0.0.1" and settings.api.port == 6385


def test_the_database_is_a_file_under_the_state_path(monkeypatch):
    """F55: nothing is forgotten over a restart with default settings."""
    monkeypatch.setenv("OS_DEFAULT__STATE_PATH", "/srv/state")
    assert fresh().database.connection == "sqlite:////srv/state/deploysteps.sqlite"


def test_two_configurations_share_nothing():
    one, other = fresh(), fresh()
    one.set_override("port", 1, group="api")
    assert other.api.port == 6385


def test_every_interface_type_can_be_enabled_and_given_a_default():
    settings = fresh()
    for kind in steps.INTERFACE_TYPES:
        assert settings[f"enabled_{kind}_interfaces"] is None
        assert settings[f"default_{kind}_interface"] is None


@pytest.mark.parametrize(
    ("group", "option"), [pytest.param(g, o, id=f"{g}.{o.name}") for g, o in all_options()]
)
def test_every_option_is_documented(group, option):
    assert len(option.help) > 20 and option.help.endswith((".", ".)"))


def test_the_environment_wins_over_the_file(monkeypatch, tmp_path):
    path = written(tmp_path, "[api]\nport = 7000\nhost_ip = ::1\n")
    monkeypatch.setenv("OS_API__PORT", "8000")
    monkeypatch.setenv("OS_DEFAULT__ENABLED_HARDWARE_TYPES", "one,two")
    settings = fresh([path])
    conf.check(settings)
    assert (settings.api.port, settings.api.host_ip) == (8000, "::1")
    assert settings.enabled_hardware_types == ["one", "two"]


def test_a_file_in_the_folder_is_found(tmp_path):
    assert fresh().api.port == 6385
    written(tmp_path, "[api]\nport = 7001\n", "deploysteps.conf")
    assert fresh().api.port == 7001


def test_a_missing_file_is_named():
    with pytest.raises(exceptions.ConfigurationError, match="no configuration file .*nowhere.conf"):
        fresh(["nowhere.conf"])


def test_a_file_that_is_none_is_named(tmp_path):
    with pytest.raises(exceptions.ConfigurationError, match=r"cannot be read.*some\.conf"):
        fresh([written(tmp_path, "port = 1\n")])


def test_the_command_line_of_the_program_is_left_alone(monkeypatch):
    monkeypatch.setattr("sys.argv", ["pytest", "--nonsense"])
    assert fresh(args=["--debug"]).debug is True


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("OS_API__PORT", "99999", "65535"),
        ("OS_API__HOST_IP", "a b", "host_ip"),
        ("OS_API__HOST_IP", "300.1.2.3", "'300.1.2.3' is no address; it should look like 127"),
        ("OS_API__HOST_IP", "", "'' is no address"),
        ("OS_API__PUBLIC_ENDPOINT", "ftp://x", "public_endpoint"),
        ("OS_API__PUBLIC_ENDPOINT", "ftp://x", "'ftp://x' is no address of a service; it should"),
        ("OS_API__PUBLIC_ENDPOINT", "metal.example.org", "look like https://metal.example.org"),
        ("OS_API__PUBLIC_ENDPOINT", "", "allowed: http or https address"),
        ("OS_DEFAULT__HOST", "<the machine's name>", "host"),
        ("OS_DEFAULT__AUTH_STRATEGY", "kerberos", "noauth"),
        ("OS_DEFAULT__HOST", "two words", "host"),
        ("OS_DEFAULT__HOST", "h" * 256, "host"),
        ("OS_DEFAULT__ENABLED_HARDWARE_TYPES", "", "name at least one"),
        ("OS_API__ALLOW_PUBLIC_NOAUTH", "perhaps", "allow_public_noauth"),
        ("OS_AGENT__CALLBACK_NETWORKS", "10.0.0.0/8,nowhere", "callback_networks"),
        ("OS_CONDUCTOR__DEPLOY_STEP_PRIORITY_OVERRIDE", "deploy.x", "<interface>.<step>"),
        ("OS_CONDUCTOR__DEPLOY_STEP_PRIORITY_OVERRIDE", "deploy.x:abc", "deploy.x:abc"),
        ("OS_CONDUCTOR__DEPLOY_STEP_PRIORITY_OVERRIDE", "deploy.x:-3", "deploy.x:-3"),
        ("OS_CONDUCTOR__DEPLOY_STEP_PRIORITY_OVERRIDE", "depoly.x:3", "names no interface"),
        ("OS_CONDUCTOR__DEPLOY_STEP_PRIORITY_OVERRIDE", f"deploy.x:{2**31}", "at most 2147483647"),
    ],
)
def test_a_bad_value_is_refused_with_words(monkeypatch, variable, value, told):
    monkeypatch.setenv(variable, value)
    with pytest.raises(exceptions.ConfigurationError) as caught:
        conf.check(fresh())
    assert told in str(caught.value)


def test_every_bad_value_is_told_at_once(monkeypatch):
    monkeypatch.setenv("OS_API__PORT", "x")
    monkeypatch.setenv("OS_API__THREADS", "0")
    with pytest.raises(exceptions.ConfigurationError, match=r"\[api\] port.*\[api\] threads"):
        conf.check(fresh())


def test_a_bad_value_in_a_file_is_named_without_its_place(tmp_path):
    path = written(tmp_path, "[api]\nthreads = many\n")
    with pytest.raises(exceptions.ConfigurationError, match=r"\[api\] threads: .*from 1 to 1000"):
        conf.check(fresh([path]))


def test_a_timeout_shorter_than_the_interval_is_a_contradiction(monkeypatch):
    """F46: a conductor that is alive would count as dead."""
    monkeypatch.setenv("OS_CONDUCTOR__HEARTBEAT_INTERVAL", "60")
    with pytest.raises(
        exceptions.ConfigurationError, match="heartbeat_timeout .60. must be longer"
    ):
        conf.check(fresh())


def test_a_secret_value_is_not_told(monkeypatch, tmp_path):
    settings = fresh()
    settings.register_opt(cfg.IntOpt("pin", secret=True, default=1234))
    monkeypatch.setenv("OS_DEFAULT__PIN", "hunter2")
    with pytest.raises(exceptions.ConfigurationError) as caught:
        conf.check(settings)
    assert "pin" in str(caught.value)
    assert "hunter2" not in str(caught.value) and "1234" not in str(caught.value)


def test_a_dollar_in_a_password_is_explained_by_the_error(monkeypatch):
    monkeypatch.setenv("OS_DATABASE__CONNECTION", "postgresql://u:pa$word@h/d")
    with pytest.raises(exceptions.ConfigurationError) as caught:
        conf.check(fresh())
    assert "connection" in str(caught.value) and "pa$" not in str(caught.value)
    monkeypatch.setenv("OS_DATABASE__CONNECTION", "postgresql://u:pa$$word@h/d")
    settings = fresh()
    conf.check(settings)
    assert settings.database.connection == "postgresql://u:pa$word@h/d"


def test_settings_that_no_option_has_are_told_with_what_was_meant(monkeypatch, tmp_path):
    path = written(tmp_path, "[conductor]\nheartbeet_timeout = 5\n[conducter]\nx = 1\n")
    monkeypatch.setenv("OS_API__PROT", "1")
    monkeypatch.setenv("OS_ENDPOINT", "http://elsewhere")
    told = "\n".join(conf.unknown(fresh([path])))
    assert "no option heartbeet_timeout in [conductor]; did you mean heartbeat_timeout?" in told
    assert "no group [conducter]; did you mean conductor?" in told
    assert "OS_API__PROT is no option; did you mean OS_API__PORT?" in told
    assert "OS_ENDPOINT" not in told


def test_a_priority_override_keeps_its_form():
    override = StepPriority()
    assert override(" bios.apply : 05 ") == "bios.apply:5"
    assert override("deploy.deploy:0") == "deploy.deploy:0"
    assert repr(override) == "StepPriority" and override == StepPriority() != Network()


def test_networks_are_of_both_kinds():
    network = Network()
    assert network("10.0.0.7/8") == "10.0.0.0/8"
    assert network("fe80::1/64") == "fe80::/64"
    assert repr(network) == "Network" and network == Network()
    with pytest.raises(ValueError):
        network("300.0.0.0/8")


def test_seconds_may_have_a_fraction():
    assert Seconds()("0.5") == 0.5
