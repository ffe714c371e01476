"""Bring a host to an SMT level and prove it. The action plugin host_program does it."""

DOCUMENTATION = """
module: smt_state
short_description: Bring a host to an SMT level and prove it
description:
  - Switches SMT, and then single CPUs where an exact list is given.
  - Fails and names the CPUs where the wrong ones are online afterwards.
author: hotplug-acceleration maintainers (!UNKNOWN)
extends_documentation_fragment: smt.hotplug.host_program
options:
  level:
    description: V(on), V(off) (quoted in YAML), or a number of threads per core.
    type: str
    required: true
  exactly:
    description: CPU list to be online, and no other CPU.
    type: str
  at_least:
    description: CPU list to be online.
    type: str
  present:
    description: >-
      CPU list that was present when the other lists were recorded. CPUs that DLPAR added since are left
      alone, and those that it removed are not asked for.
    type: str
  staging:
    description:
      - Directory on the host with what a switch kept of interrupts, network queues and tasks.
      - Once the CPUs of then are online, interrupts are given theirs again, and what is lost is returned.
    type: path
"""

EXAMPLES = """
- name: Bring SMT back to what it was
  smt.hotplug.smt_state:
    level: "on"
    exactly: 0-15
    answer_timeout: 7200
"""

RETURN = """
online:
  description: CPU list that is online now, also in check mode.
  returned: success
  type: str
level:
  description: SMT level now; none where nothing switches SMT.
  returned: success
  type: str
lost:
  description: What a switch took from interrupts, queues and tasks and cannot be given back, in lines.
  returned: success
  type: list
  elements: str
"""
