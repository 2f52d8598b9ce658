"""``[api]``: the REST service."""

from __future__ import annotations

from oslo_config import cfg

from deploysteps.conf.types import HttpAddress, ListenAddress, Seconds

GROUP = cfg.OptGroup("api", title="REST API", help="The REST service.")

ROLES: dict[str, list[str]] = {
    "admin": ["admin", "manager", "member", "reader"],
    "member": ["member", "reader"],
    "reader": ["reader"],
    "none": [],
}
"""Role of a user of ``http_basic`` -> that and those that it has in it, as in the field."""

OPTS: list[cfg.Opt] = [
    cfg.Opt(
        "host_ip",
        type=ListenAddress(),
        default="127.0.0.1",
        help="The address of this machine to listen on: an IP address, or a name that has one.",
    ),
    cfg.PortOpt(
        "port",
        default=6385,
        help="The port to listen on. 0: any free one, which is told at start.",
    ),
    cfg.Opt(
        "public_endpoint",
        type=HttpAddress(),
        help=(
            "The address under which clients know the service, for links in answers, such as "
            "https://metal.example.org:6385. Unset: what the request was sent to."
        ),
    ),
    cfg.BoolOpt(
        "allow_public_noauth",
        default=False,
        help=(
            "Listen on an address that other machines can reach although there is no "
            "authentication. Everyone who reaches it can then power machines off and "
            "overwrite their disks."
        ),
    ),
    cfg.DictOpt(
        "http_basic_roles",
        default={},
        help=(
            "Roles of users of auth_strategy = http_basic, such as alice:reader,bob:member: "
            "reader (sees), member (uses), admin (all) or none, for all nodes. * stands for all "
            "who are not named; those are admins without it."
        ),
    ),
    cfg.StrOpt(
        "network_data_schema",
        help=(
            "A file with a JSON schema that network_data of nodes follows. Unset: links, networks "
            "and services as in a metadata service's network_data.json. A schema that names no "
            "draft is taken to be of draft 4. Read at start."
        ),
    ),
    cfg.ListOpt(
        "allowed_hosts",
        default=[],
        help=(
            "Names and addresses under which clients may call the service, without port: a "
            "request with another Host header is refused. .example.org stands for all names "
            "below it. Empty: any; links in answers then repeat what the client sent, unless "
            "public_endpoint is set. /healthz and /readyz answer under any. Without "
            "authentication, on this machine's own address only, and with this unset, a name with "
            "a dot is refused that is not the one of public_endpoint."
        ),
    ),
    cfg.BoolOpt(
        "enable_ssl_api",
        default=False,
        help="Serve https instead of http, by cert_file and key_file.",
    ),
    cfg.StrOpt(
        "cert_file",
        deprecated_opts=[cfg.DeprecatedOpt("cert_file", group="ssl")],
        help="The server's certificate in PEM, followed by those that lead to its authority.",
    ),
    cfg.StrOpt(
        "key_file",
        deprecated_opts=[cfg.DeprecatedOpt("key_file", group="ssl")],
        help="The private key of cert_file, in PEM, without a passphrase.",
    ),
    cfg.StrOpt(
        "server_tls_minimum_version",
        default="1.2",
        choices=["1.2", "1.3"],
        help="The oldest version of TLS that clients may use.",
    ),
    cfg.IntOpt(
        "threads",
        default=20,
        min=1,
        max=1000,
        help="Requests that are answered at once; more wait in line.",
    ),
    cfg.IntOpt(
        "max_limit",
        default=1000,
        min=1,
        max=100_000,
        help="The most items that one answer to a list request holds; the rest is paged.",
    ),
    cfg.IntOpt(
        "max_request_body_bytes",
        default=16 * 2**20,
        min=1,
        max=2**30,
        help="The largest request body that is read, in bytes; a larger one is refused (413).",
    ),
    cfg.Opt(
        "request_timeout",
        type=Seconds(min=1, max=3600),
        default=60,
        help=(
            "Seconds within which a whole request has to arrive, headers and body, and its answer "
            "has to be taken; a slower client is cut off (408). Half of the threads are for "
            "requests that take longer than 2 seconds to arrive (a quarter of a second while "
            "others wait for a thread): those beyond are cut off then."
        ),
    ),
    cfg.IntOpt(
        "max_json_depth",
        default=64,
        min=1,
        max=200,
        help="How deep lists and objects of a request body may be nested; deeper is refused.",
    ),
    cfg.Opt(
        "ramdisk_heartbeat_timeout",
        type=Seconds(min=1),
        default=300,
        help=(
            "Seconds that the machine's agent is told as the limit between its heartbeats; it "
            "beats after 0.3 to 0.6 of that."
        ),
    ),
]
