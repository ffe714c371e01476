/* SPDX-License-Identifier: GPL-2.0-only */
/* The counters that are read: they tell the time, in ns, and take a time of our choice to do so. */
#ifndef DEVICE_H
#define DEVICE_H

#include <linux/types.h>

/*
 * A counter all CPUs share.  Each read takes latency_ns, and tells the time half way through.  If it
 * is serial, reads that come at the same time are served one after the other.
 */
struct device {
	u64 latency_ns;
	bool serial;
	u32 mask;
	u64 free_at;
};

extern struct device device;

void device_init(void);

/* The time since device_init() in ns, without the cost of a device; the same on all CPUs. */
u64 device_now(void);

/* One read of the shared counter. */
u32 device_read(void);

/* One read of a CPU's own counter, which latency_ns is no part of. */
u64 device_cycles(void);

#endif
