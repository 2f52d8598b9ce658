"""Run the real ironic-python-agent as a harmless test peer.

Everything network-facing (REST API, lookup, heartbeat, command queue, step
dispatch) is the unmodified agent.  Only the hardware side is replaced:
* one in-memory hardware manager, so no disk, RAID or IPMI probing happens;
* every external program is refused but those in PROGRAMS on the disk PEER_DISK, power
  commands end this process instead, and the agent's network lock-down is a no-op.
Not covered: agent code that writes files from Python.  An image goes onto PEER_DISK, which has
to be a file or a device for the test; without it no disk is there.  Do not send rescue.*.

Each step that runs is written as a line to the file PEER_DONE, when it begins.

usage: PEER_MAC=52:54:00:00:00:01 PEER_DONE=done python ipa_peer.py --config-file ipa.conf
"""

import io
import os
import sys
import threading
import time

from oslo_concurrency import processutils

DISK = os.environ.get("PEER_DISK", "/nonexistent/peer-disk")
PROGRAMS = {"dd", "hexdump", "lsblk", "mount", "parted", "partprobe", "umount"}
"""What may be executed, when the only device that the arguments name is the disk."""

_execute = processutils.execute


def _concerns_the_disk(cmd):
    devices = [part for arg in cmd[1:] for part in str(arg).split("=") if part.startswith("/dev/")]
    mine = [device == DISK or device.startswith(DISK + "p") for device in devices]
    return cmd[0] in PROGRAMS and all(mine)


def _guard(*cmd, **kw):
    if "PEER_DISK" in os.environ and not kw.get("shell") and _concerns_the_disk(cmd):
        return _execute(*cmd, **kw)
    print("PEER refused command:", cmd, file=sys.stderr, flush=True)
    raise processutils.ProcessExecutionError(
        stderr="refused by test peer", exit_code=127, cmd=" ".join(map(str, cmd))
    )


processutils.execute = _guard

from ironic_python_agent import agent, errors, hardware, utils  # noqa: E402
from ironic_python_agent.cmd import agent as cmd_agent  # noqa: E402
from ironic_python_agent.extensions import base, standby  # noqa: E402

utils.copy_config_from_vmedia = lambda: None  # would scan block devices
utils.is_journalctl_present = lambda: False  # asks past the guard
agent.IronicPythonAgent._lockdown_system = lambda self: print(
    "PEER lockdown requested", file=sys.stderr, flush=True
)


def _step(name, priority=0, **kw):
    out = {"step": name, "priority": priority, "interface": "deploy", "reboot_requested": False}
    out.update(kw)
    return out


def _fake_shutdown(self, command):
    """Stand-in for poweroff/reboot: end this process a moment later."""
    print("PEER shutdown command:", command, file=sys.stderr, flush=True)
    threading.Timer(0.5, os._exit, (0 if command == "poweroff" else 3,)).start()


standby.StandbyExtension._run_shutdown_command = _fake_shutdown
standby.StandbyExtension.sync = base.sync_command("sync")(lambda self: None)


MARKS = [f"peer_mark_{number}" for number in range(10)]


def _done(name):
    with open(os.environ["PEER_DONE"], "a") as done:
        print(name, file=done)


class PeerManager(hardware.HardwareManager):
    HARDWARE_MANAGER_NAME = "peer"
    HARDWARE_MANAGER_VERSION = "1"

    def evaluate_hardware_support(self):
        return hardware.HardwareSupport.MAINLINE

    # --- inventory
    def list_network_interfaces(self):
        return [
            hardware.NetworkInterface(
                "eth0", os.environ.get("PEER_MAC", "52:54:00:00:00:01"), ipv4_address="127.0.0.1"
            )
        ]

    def get_cpus(self):
        return hardware.CPU("peer", "1000", 1, "x86_64")

    def get_memory(self):
        return hardware.Memory(total=1 << 30, physical_mb=1024)

    def list_block_devices(self, include_partitions=False):
        return [hardware.BlockDevice(DISK, "peer", 10 << 30, False)]

    def get_os_install_device(self, permit_refresh=False):
        return DISK

    def get_bmc_address(self):
        return None

    def get_bmc_v6address(self):
        return None

    def get_bmc_mac(self):
        return None

    def get_system_vendor_info(self):
        return hardware.SystemVendorInfo("peer", "1", "peer", None)

    def get_boot_info(self):
        return hardware.BootInfo(current_boot_mode="uefi")

    def wait_for_disks(self):
        pass

    def collect_system_logs(self, io_dict, file_list):
        file_list.clear()  # those of the computer that the test runs on
        io_dict["peer.log"] = io.BytesIO(b"the peer's own log\n")

    def generate_tls_certificate(self, ip_address):
        from ironic_python_agent import tls_utils

        return tls_utils.generate_tls_certificate(ip_address)

    # --- steps
    def get_deploy_steps(self, node, ports):
        return [
            _step("peer_mark", 50),
            _step(
                "peer_sleep", 0, argsinfo={"seconds": {"description": "how long", "required": True}}
            ),
            _step("peer_fail"),
            _step("peer_reboot", 0, reboot_requested=True),
            _step("peer_raid", 0, interface="raid"),
            _step("peer_update"),
            *(_step(name) for name in MARKS),
        ]

    def get_clean_steps(self, node, ports):
        steps = self.get_deploy_steps(node, ports)
        return [dict(step, abortable=step["step"] != "peer_sleep") for step in steps]

    def get_service_steps(self, node, ports):
        return self.get_deploy_steps(node, ports)

    def peer_mark(self, node, ports, **kw):
        _done("peer_mark")
        return {"marked": node["uuid"], "args": kw}

    def peer_sleep(self, node, ports, seconds=1, **kw):
        _done("peer_sleep")
        time.sleep(float(seconds))
        return "slept"

    def peer_fail(self, node, ports, **kw):
        _done("peer_fail")
        raise errors.DeploymentError("peer was told to fail")

    def peer_raid(self, node, ports, **kw):
        _done("peer_raid")

    def peer_update(self, node, ports, **kw):
        _done("peer_update")
        type(self).HARDWARE_MANAGER_VERSION = "2"

    def peer_reboot(self, node, ports, **kw):
        _done("peer_reboot")


def _mark(name):
    def mark(self, node, ports, **kw):
        _done(name)
        time.sleep(0.02)  # else the answer to the command says already that it is done

    return mark


for _name in MARKS:
    setattr(PeerManager, _name, _mark(_name))


hardware._get_extensions = lambda: []  # no generic manager
_mgr = PeerManager()
hardware._global_managers = [
    {"name": type(_mgr).__name__, "manager": _mgr, "support": _mgr.evaluate_hardware_support()}
]

if __name__ == "__main__":
    cmd_agent.run()
