"""Set rcu_expedited and prove it. The action plugin host_program does it."""

DOCUMENTATION = """
module: rcu_expedited
short_description: Set rcu_expedited and prove it
description:
  - Writes C(/sys/kernel/rcu_expedited). Refuses where another program of ours holds the settings.
author: hotplug-acceleration maintainers (!UNKNOWN)
extends_documentation_fragment: smt.hotplug.host_program
options:
  value:
    description: What the file has to contain.
    type: str
    choices: ["0", "1"]
    required: true
"""

EXAMPLES = """
- name: Expedite all grace periods
  smt.hotplug.rcu_expedited:
    value: "1"
  register: was

- name: Put it back
  smt.hotplug.rcu_expedited:
    value: "{{ was.before }}"
"""

RETURN = """
before:
  description: What the file contained.
  returned: success
  type: str
"""
