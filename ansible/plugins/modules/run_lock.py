"""Take a host for one run, or give it back. The action plugin host_program does it."""

DOCUMENTATION = """
module: run_lock
short_description: Take a host for one run, or give it back
description:
  - The lock is one file, which survives reboots and has the way back in it.
  - Names the holder, since when, and whether that run is alive, where another run has the host.
  - The owner is the job and user of AWX, or else user and machine of the controller, and the change number.
author: hotplug-acceleration maintainers (!UNKNOWN)
extends_documentation_fragment: smt.hotplug.host_program
options:
  action:
    description: What to do.
    type: str
    choices: [acquire, release]
    required: true
  staging:
    description: Directory on the host in which the lock is.
    type: path
    default: /var/lib/hotplug-acceleration
  record:
    description: What is written beside the owner, such as the state to go back to.
    type: dict
  lease:
    description:
      - Seconds for which a sign of life of the run counts, such as the longest step on a host takes.
      - Such a sign is each module of the run that reaches the host, and what a unit of the run does there.
      - A lease that ran out lets no other run in. It is reported beside the holder.
      - Where hosts of a batch share a fork, it is longer by that factor.
    type: int
    default: 9000
  token:
    description: Token of the run that took it, or V(any).
    type: str
"""

EXAMPLES = """
- name: Take the host
  smt.hotplug.run_lock:
    action: acquire
    record: {default: "{{ record }}"}
  register: lock

- name: Give the host back
  smt.hotplug.run_lock:
    action: release
    token: "{{ lock.token }}"
"""

RETURN = """
token:
  description: What identifies the run.
  returned: success
  type: str
owner:
  description: Who takes the lock.
  returned: success
  type: str
started:
  description: When, in UTC.
  returned: success
  type: str
lease:
  description: Seconds for which a sign of life of the run counts, with the share of a fork in it.
  returned: success
  type: int
held:
  description: Whether this run has the host now.
  returned: success
  type: bool
"""
