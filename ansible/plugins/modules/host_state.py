"""Read the state of a host and judge whether it is fit. The action plugin host_program does it."""

DOCUMENTATION = """
module: host_state
short_description: Read the state of a host and judge whether it is fit
description:
  - Reads the kernel, CPUs, SMT, clocksource, boot loader, workloads and records of runs.
  - Judges by them whether the host is fit for a purpose. Each reason has a next step.
  - Sets the facts C(ansible_facts.host_state) and C(ansible_facts.host_judgement).
author: hotplug-acceleration maintainers (!UNKNOWN)
extends_documentation_fragment: smt.hotplug.host_program
attributes:
  check_mode:
    description: It changes nothing, so it also runs in check mode.
    support: full
options:
  for:
    description: What the host is to be fit for.
    type: str
    default: ab
    choices: [switch, time, ab, deploy, install]
  staging:
    description: Directory on the host where runs keep their records and files.
    type: path
    default: /var/lib/hotplug-acceleration
  need_bytes:
    description: Bytes that have to be free in that directory's file system.
    type: int
  boot_bytes:
    description: Bytes that have to be free in C(/boot).
    type: int
  rollback:
    description: The command that brings a host back, for the steps of reasons.
    type: str
  no_kexec:
    description: Whether the boot loader boots all kernels of an A/B run.
    type: bool
    default: false
  kexec_file_load:
    description: Whether kernels are loaded with the system call that a locked down host demands.
    type: bool
    default: false
  initrd:
    description: Path on the host of the initial RAM disk to be used, or V(make) where one is to be made.
    type: str
  unsigned:
    description: Images without a signature, which secure boot refuses.
    type: list
    elements: str
  installed:
    description: Releases of the installed kernels that the boot loader is to boot.
    type: list
    elements: str
  kernel:
    description: Kernels to boot, as C(python -m hotplug_common.kernel.drivers ARTIFACT) prints them.
    type: list
    elements: dict
  allow_missing:
    description: What of the host a kernel may lack.
    type: list
    elements: str
    choices: [firewall, selinux, apparmor, audit, kdump]
"""

EXAMPLES = """
- name: Read and judge the host
  smt.hotplug.host_state:
    for: switch

- name: Show what is online
  ansible.builtin.debug:
    var: ansible_facts.host_state.cpus.online
"""

RETURN = """
facts:
  description: The state of the host.
  returned: success
  type: dict
verdict:
  description: C(go), C(go-with-warnings) or C(no-go).
  returned: success
  type: str
reasons:
  description: What speaks against the host, each with C(level), C(text) and C(step).
  returned: success
  type: list
  elements: dict
"""
