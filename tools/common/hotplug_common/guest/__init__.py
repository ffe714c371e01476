"""Disks, machines and consoles of guests in QEMU."""
