"""Read a host's health and compare it with before. The action plugin host_program does it."""

DOCUMENTATION = """
module: host_health
short_description: Read a host's health and compare it with before
description:
  - Reads failed units, mounts, links, firewall, SELinux mode, time synchronisation and crash dumps.
  - With the health from before, waits for the boot to end, and fails where something is worse.
author: hotplug-acceleration maintainers (!UNKNOWN)
extends_documentation_fragment: smt.hotplug.host_program
attributes:
  check_mode:
    description: It changes nothing, so it also runs in check mode.
    support: full
options:
  before:
    description: C(health) of an earlier answer.
    type: dict
  ignore:
    description: Units, mounts and links that may differ; also C(selinux), C(firewall) and C(kdump).
    type: list
    elements: str
"""

EXAMPLES = """
- name: Read the host's health
  smt.hotplug.host_health:
  register: was

- name: Check that the host does as before
  smt.hotplug.host_health:
    before: "{{ was.health }}"
    ignore: [chronyd.service]
"""

RETURN = """
health:
  description: The health now.
  returned: success
  type: dict
worse:
  description: What is worse than before, in words.
  returned: with C(before), on success (empty) and when something is worse
  type: list
  elements: str
"""
