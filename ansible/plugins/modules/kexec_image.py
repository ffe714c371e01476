"""Load a kernel for kexec and prove it. The action plugin host_program does it."""

DOCUMENTATION = """
module: kexec_image
short_description: Load a kernel for kexec and prove it
description:
  - Loads the image only where its SHA-256 is the one given.
author: hotplug-acceleration maintainers (!UNKNOWN)
extends_documentation_fragment: smt.hotplug.host_program
options:
  image:
    description: Path of the image on the host.
    type: path
    required: true
  sha256:
    description: Hex SHA-256 that the image must have.
    type: str
    required: true
  kexec_option:
    description: Further arguments of C(kexec --load).
    type: list
    elements: str
"""

EXAMPLES = """
- name: Load the image
  smt.hotplug.kexec_image:
    image: /var/lib/hotplug-acceleration/stage/patched/vmlinux
    sha256: "{{ kernel.sha256 }}"
    kexec_option: ["--command-line=root=/dev/sda2 panic=60"]
"""

RETURN = """
boot_id:
  description: Which boot the host is in.
  returned: success
  type: str
kexec:
  description: Path of kexec on the host.
  returned: success
  type: str
"""
