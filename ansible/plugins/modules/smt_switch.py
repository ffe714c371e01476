"""Switch SMT by a unit of the host. The action plugin host_program does it."""

DOCUMENTATION = """
module: smt_switch
short_description: Switch SMT by a unit of the host
description:
  - Switches with expedited grace periods in a unit of systemd.
  - The unit goes on when the connection or the controller is lost.
  - C(start) begins it, C(finish) takes its answer and gives the host's lock back.
author: hotplug-acceleration maintainers (!UNKNOWN)
extends_documentation_fragment: smt.hotplug.host_program
options:
  action:
    description: What to do.
    type: str
    choices: [start, finish]
    required: true
  level:
    description: V(on), V(off) (quoted in YAML), or a number of threads per core.
    type: str
    required: true
  tune_fqs:
    description: Whether to shorten RCU's delays between scans, too.
    type: bool
    default: false
  timeout:
    description: Seconds that the switch may take.
    type: int
    default: 7200
  staging:
    description: Directory on the host where runs keep their records and files.
    type: path
    default: /var/lib/hotplug-acceleration
  record:
    description: The state before, which a rollback goes back to.
    type: dict
  token:
    description: Token of the run that holds the host.
    type: str
"""

EXAMPLES = """
- name: Start the switch
  smt.hotplug.smt_switch:
    action: start
    level: "off"
    record: "{{ record }}"

- name: Take its answer, and give the host back
  smt.hotplug.smt_switch:
    action: finish
    level: "off"
    token: "{{ lock.token }}"
"""

RETURN = """
said:
  description: What was done, in lines for people.
  returned: when it has ended
  type: list
  elements: str
seconds:
  description: How long the switch took.
  returned: when it has ended
  type: float
level:
  description: SMT level now; none where nothing switches SMT.
  returned: when it has ended
  type: str
rc:
  description: V(7) when the switch goes on, V(-1) when the host did not answer.
  returned: always
  type: int
"""
