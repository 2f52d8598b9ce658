"""Deploy interface ``direct``: the real agent writes an image onto a disk.

The disk is a loop device, where root can make one. Stand-ins are ``parted``, ``partprobe`` and
``lsblk`` (see ``disk_programs.py``); what writes to the disk and mounts it is real. Elsewhere the
disk is a regular file, and the configuration drive is left out: no partition of a file can be
written to. A machine that lets no one make loop devices lacks no service, so that is a skip also
where DEPLOYSTEPS_REQUIRE_SERVICES is set.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from deploysteps.cli.client import node_path
from tests.peers import disks
from tests.peers.disks import DRIVE, SYSTEM, Disk
from tests.peers.nodes import Node, again


class ImageServer:
    """Serves whatever image the test puts there."""

    def __init__(self) -> None:
        images: dict[str, bytes] = {}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                content = images[self.path]
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: object) -> None:
                pass

        self._images = images
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def put(self, name: str, content: bytes) -> str:
        """Serve an image, and return its URL."""
        self._images[f"/{name}"] = content
        return f"http://127.0.0.1:{self._server.server_address[1]}/{name}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def images() -> Iterator[ImageServer]:
    server = ImageServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    found = Disk(tmp_path_factory.mktemp("disks") / "disk")
    yield found
    found.close()


@pytest.fixture(scope="module")
def node(disk: Disk, machines: Callable[..., list[Node]]) -> Node:
    (node,) = machines({}, False, disk=disk)
    return node


def wants(node: Node, url: str, sha256: str) -> None:
    """Say which image the node is to have."""
    info = {
        "image_source": url,
        "image_os_hash_algo": "sha256",
        "image_os_hash_value": sha256,
        "image_disk_format": "raw",
    }
    patch = [{"op": "add", "path": "/instance_info", "value": info}]
    node.service.client.patch(node_path(node.name), patch)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_another_checksum_than_the_image_has(node, disk, images):
    """F72, F74: the deployment fails with the agent's words, and keeps the machine's logs."""
    image = disks.image()
    wants(node, images.put("spoilt.raw", image), sha256(b"another image"))
    node.ask("active")
    told = node.reach("deploy failed")["last_error"]
    assert "deploy.write_image failed" in told
    assert "checksum" in told and sha256(image) in told and sha256(b"another image") in told
    failed = {one["step"]: one for one in node.run()["attempts"]}["write_image"]
    assert failed["outcome"] == "failed"
    assert failed["evidence"]["command_error"]["type"] == "ImageChecksumError"
    assert failed["evidence"]["agent_logs"] == {"peer.log": "the peer's own log\n"}
    assert node.get()["power_state"] == "power off" and node.machine.done == []


def test_the_image_is_written(node, disk, images):
    again(node)
    boots = node.machine.boots
    image = disks.image()
    wants(node, images.put("whole.raw", image), sha256(image))
    node.ask("active")
    node.reach("active")
    assert node.attempts() == [
        (step, "success")
        for step in (
            "prepare",
            "deploy",
            "write_image",
            "prepare_instance_boot",
            "peer_mark",
            "tear_down_agent",
            "switch_to_tenant_network",
            "boot_instance",
        )
    ]
    assert node.machine.boots - boots == 2  # the agent, the instance
    assert "PEER shutdown command: poweroff" in node.machine.log
    assert node.get()["power_state"] == "power on"
    written = disk.content()
    assert written[: len(image)] == image
    assert not any(written[len(image) :])


def test_the_configuration_drive_is_in_its_partition(node, disk, images, tmp_path):
    if not disk.is_device:
        pytest.skip("no loop devices here (root, losetup): no partition can be written to")
    again(node)
    image = disks.image(drive=disks.filesystem(tmp_path, "config-2"))
    drive = disks.filesystem(tmp_path, "written", hostname="machine-0")
    wants(node, images.put("with-drive.raw", image), sha256(image))
    node.ask("active", configdrive=disks.as_configdrive(drive))
    node.reach("active")
    written = disk.content()
    assert written[DRIVE] == drive
    assert written[SYSTEM] == image[SYSTEM]
    assert written[: SYSTEM.start] == image[: SYSTEM.start]
