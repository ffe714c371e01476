"""Waits for a host to boot another kernel, and proves that it did."""

from __future__ import annotations

import shlex
import time
from dataclasses import asdict
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

try:
    from hotplug_common import bootproof, process
except ImportError as error:
    MISSING = f"{error}; install hotplug-acceleration beside ansible-playbook"
else:
    MISSING = ""

#: A connection of its own for each look, which ends soon where the host has gone without a word.
SSH_ARGS = "-o ControlPath=none -o ServerAliveInterval=5 -o ServerAliveCountMax=3"


class ActionModule(ActionBase):  # type: ignore[misc]
    """Asks the host again and again.

    Ansible's own retries of ssh wait for up to half a minute between two.
    """

    TRANSFERS_FILES = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task."""
        variables = task_vars or {}
        result: dict[str, Any] = super().run(tmp, variables)
        if MISSING:
            raise AnsibleActionFail(MISSING)
        _, options = self.validate_argument_spec(
            {
                "old_boot_id": {"type": "str", "required": True},
                "release": {"type": "str", "default": ""},
                "variant": {"type": "str", "default": ""},
                "delay": {"type": "int", "default": 0},
                "timeout": {"type": "int", "required": True},
                "down_timeout": {"type": "int", "required": True},
            }
        )
        if self._task.check_mode:
            return {**result, "skipped": True, "changed": False}
        # A look keeps the kernel that it finds; without its run, that would hold the host.
        process.end_with_parent()
        began = time.monotonic()
        time.sleep(options.pop("delay"))
        wanted = bootproof.Wanted(**options)
        ssh = self._look_alone()
        root = shlex.quote(str(self._templar.template(variables.get("hotplug_sysroot") or "/")))

        def ask(command: str, seconds: float) -> str:
            if ssh:
                self._connection.set_option("timeout", bootproof.connect_within(time.monotonic() - began))
            try:
                with process.no_longer_than(seconds):
                    ran = self._low_level_execute_command(f"cd {root} && {command}")
            except (AnsibleConnectionFailure, process.Expired):
                return ""
            return str(ran["stdout"]) if ran["rc"] == 0 else ""

        found = bootproof.wait(ask, wanted, lambda: time.monotonic() - began, time.sleep)
        result.update(seen=asdict(found.boot) if found.boot else {}, waited=int(found.waited), changed=False)
        if message := bootproof.fault(variables.get("inventory_hostname", "the host"), wanted, found):
            result.update(failed=True, msg=message)
        return result

    def _look_alone(self) -> bool:
        """Have each look open a connection of its own, where that is ssh; return whether it is."""
        if self._connection.transport.rpartition(".")[2] != "ssh":
            return False
        given = self._connection.get_option("ssh_args")
        self._connection.set_option("ssh_args", f"{SSH_ARGS} {given}")
        self._connection.set_option("reconnection_retries", 0)
        return True
