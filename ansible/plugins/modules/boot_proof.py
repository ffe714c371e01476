"""Wait for a host to boot another kernel, and prove that it did. The action plugin of this name does it."""

DOCUMENTATION = """
module: boot_proof
short_description: Wait for a host to boot another kernel, and prove that it did
description:
  - Asks the host until it answers with another C(boot_id). Compares the release, and the variant on the
    command line.
  - A host that still runs the old kernel is asked by one command, until its connection ends. One that does
    not answer is asked again two seconds after each try, by a connection of its own.
  - The command that meets another C(boot_id) stops the timer of M(smt.hotplug.boot_fallback) there, so that
    no host beside it can let it go off.
  - A host that does not come back fails. It does not drop out of the play, so that the play's rescue runs.
author: hotplug-acceleration maintainers (!UNKNOWN)
attributes:
  check_mode:
    description: It changes nothing but that timer. It is skipped in check mode.
    support: none
options:
  old_boot_id:
    description: C(/proc/sys/kernel/random/boot_id) before the boot.
    type: str
    required: true
  release:
    description: Exact C(uname -r) to find; empty to accept any.
    type: str
    default: ""
  variant:
    description: Value of C(hotplug_acceleration.variant=) to find on the command line; empty for none.
    type: str
    default: ""
  delay:
    description: Seconds to leave the host alone before the first look.
    type: int
    default: 0
  timeout:
    description: Seconds in which the host has to be back.
    type: int
    required: true
  down_timeout:
    description: Seconds after which a host that still runs the old kernel counts as never gone down.
    type: int
    required: true
"""

EXAMPLES = """
- name: Wait for the kernel and prove that it runs
  smt.hotplug.boot_proof:
    old_boot_id: "{{ before.boot_id }}"
    release: 6.12.118-smt
    timeout: 900
    down_timeout: 120
"""

RETURN = """
seen:
  description: The kernel that answered last, by C(boot_id), C(release) and C(variant). Empty where none did.
  returned: always
  type: dict
waited:
  description: Seconds from the start of the task.
  returned: always
  type: int
"""
