"""Have an SMT level that was applied hold after a reboot. The action plugin host_program does it."""

DOCUMENTATION = """
module: smt_persist
short_description: Have an SMT level that was applied hold after a reboot
description:
  - V(unit) has a unit of this collection set the level at boot.
  - V(smtstate) enables C(smtstate.service) of powerpc-utils.
  - That service saves the level at shutdown and loads it at boot.
  - V(none) takes back what the record on the host tells of.
author: hotplug-acceleration maintainers (!UNKNOWN)
extends_documentation_fragment: smt.hotplug.host_program
options:
  kind:
    description: Which way.
    type: str
    choices: [unit, smtstate, none]
    required: true
  level:
    description: V(on), V(off) (quoted in YAML), or a number of threads per core.
    type: str
  staging:
    description: Directory on the host where runs keep their records and files.
    type: path
    default: /var/lib/hotplug-acceleration
  record:
    description: The state before, for a rollback; an earlier record on the host counts instead.
    type: dict
"""

EXAMPLES = """
- name: Have SMT stay off
  smt.hotplug.smt_persist:
    kind: unit
    level: "off"
    record: "{{ record }}"
"""

RETURN = """
before:
  description: Which way it was before.
  returned: success
  type: str
now:
  description: Which way it is now.
  returned: success
  type: str
"""
