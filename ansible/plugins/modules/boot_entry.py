"""Manage a boot entry for a kernel beside the default one. The action plugin host_program does it."""

DOCUMENTATION = """
module: boot_entry
short_description: Install a kernel beside the default one and boot it by the boot loader
description:
  - Knows Debian and Ubuntu, the RHEL family, and SLES.
  - Knows GRUB with BLS entries (grubby), and GRUB with C(custom.cfg).
  - A package puts its kernel below C(/boot/hotplug-acceleration/); it runs no script.
  - C(look), C(read) and C(booted) change nothing.
  - C(look) and C(booted) refuse a boot loader that does not boot an entry just once.
author: hotplug-acceleration maintainers (!UNKNOWN)
extends_documentation_fragment: smt.hotplug.host_program
options:
  action:
    description: >-
      V(look) checks the boot loader, V(read) tells the release that it boots by default, V(once) installs the
      package and has its entry booted the next time, V(booted) checks that it is booted no second time,
      V(default) makes it the default, V(remove) puts the default back and removes the entry and the package.
    type: str
    choices: [look, read, once, booted, default, remove]
    required: true
  installed:
    description: >-
      Whether the kernel is installed, with its own entry. Then V(once) installs nothing, V(look) also refuses
      a host whose default is not the kernel that runs, and V(remove) only takes V(once) back.
    type: bool
    default: false
  package:
    description: >-
      The package, as C(lpar-lab package) describes it in artifact.json, unless the kernel is installed.
    type: dict
  package_file:
    description: With V(once), path of the package on the host.
    type: path
  release:
    description: C(uname -r) of the kernel.
    type: str
    required: true
  image:
    description: File name of the package's kernel image, C(vmlinux) on POWER and C(bzImage) on x86.
    type: str
  sha256:
    description: Hex SHA-256 that the image must have.
    type: str
  words:
    description: Words to add to the default kernel's command line.
    type: str
  cmdline:
    description: The default kernel's command line.
    type: str
  initrd:
    description: >-
      Path of an initial RAM disk. With V(make), V(once) has the host's own tool make one of the package's
      modules, and refuses one that lacks what the host's root is on; V(look) refuses a host without such a
      tool, and V(remove) removes it.
    type: str
  as_default:
    description: Whether the entry is to become the default.
    type: bool
    default: false
  former_default:
    description: The entry that was the default before.
    type: str
"""

EXAMPLES = """
- name: Look at the boot loader
  smt.hotplug.boot_entry:
    action: look
    package: "{{ artifact.package }}"
    release: 6.12.60-patched
    image: vmlinux

- name: Install the kernel, and boot it the next time
  smt.hotplug.boot_entry:
    action: once
    package: "{{ artifact.package }}"
    package_file: /var/lib/hotplug-acceleration/stage/patched/linux-hotplug-acceleration.deb
    release: 6.12.60-patched
    image: vmlinux
    sha256: "{{ artifact.sha256 }}"
    cmdline: "{{ record.cmdline }}"
"""

RETURN = """
default:
  description: The entry that is booted by default.
  returned: success, but for V(read)
  type: str
gone:
  description: The entry that was the default before, and is there no more; GRUB chooses the default then.
  returned: with V(remove), where it is gone
  type: str
present:
  description: Whether the kernel has an entry.
  returned: success, but for V(read)
  type: bool
release:
  description: C(uname -r) of the kernel that is booted by default; empty where that cannot be told.
  returned: with V(read)
  type: str
why:
  description: Why that cannot be told.
  returned: with V(read)
  type: str
"""
