"""Switch the clocksource, or put back the one before. The action plugin host_program does it."""

DOCUMENTATION = """
module: clocksource
short_description: Switch the clocksource, or put back the one before
description:
  - Writes who switched, and from which clocksource, in a record of this boot.
  - Leaves the clocksource as found where it fails.
author: hotplug-acceleration maintainers (!UNKNOWN)
extends_documentation_fragment: smt.hotplug.host_program
options:
  apply:
    description: Clocksource to switch to.
    type: str
  restore:
    description: Put back the one of the record.
    type: bool
    default: false
  record:
    description: File of the record.
    type: path
    required: true
  owner:
    description: Who switches.
    type: str
  settle:
    description: Seconds that the kernel has to use it at least.
    type: float
"""

EXAMPLES = """
- name: Switch the clocksource
  smt.hotplug.clocksource:
    apply: hpet
    record: /var/lib/hotplug-acceleration/clocksource.json
    settle: 2
"""

RETURN = """
before:
  description: The clocksource before.
  returned: success
  type: str
now:
  description: The clocksource now, or in check mode the one that would be.
  returned: success
  type: str
"""
