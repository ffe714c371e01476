"""Arm or disarm the host's own way back. The action plugin host_program does it."""

DOCUMENTATION = """
module: boot_fallback
short_description: Arm or disarm the host's own way back
description:
  - Armed, a timer reboots the host to its default kernel some time after it has booted the other one.
  - The time is longer where hosts share Ansible's forks, as one is then asked after others.
author: hotplug-acceleration maintainers (!UNKNOWN)
extends_documentation_fragment: smt.hotplug.host_program
options:
  action:
    description: What to do.
    type: str
    choices: [arm, disarm]
    required: true
  release:
    description: C(uname -r) of the kernel to leave.
    type: str
  variant:
    description: Tag of that kernel; empty for one that has none.
    type: str
  seconds:
    description: How long after its start.
    type: int
"""

EXAMPLES = """
- name: Prepare the way back
  smt.hotplug.boot_fallback:
    action: arm
    release: 6.12.60-patched
    variant: patched
    seconds: 1800
"""

RETURN = """
changed:
  description: Whether the timer was armed or disarmed.
  returned: success
  type: bool
"""
