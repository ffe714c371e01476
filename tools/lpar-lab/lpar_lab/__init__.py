"""A POWER10 (or x86-64) guest in QEMU that stands in for an LPAR."""
