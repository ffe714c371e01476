"""Ways for many CPUs to read one clock, compiled from the kernel patches and measured in user space."""
