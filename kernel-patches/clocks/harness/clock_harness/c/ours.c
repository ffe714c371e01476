// SPDX-License-Identifier: GPL-2.0-only
/* What the kernel patches add, as they add it: clock_harness/sources.py takes it out of them. */
#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/combined_counter.h>

#include "algorithms.h"
#include "arch/x86/kernel/pvclock_advance.h"
#include "device.h"

static struct combined_counter counter = { .read = device_read };
static atomic64_t last_value __cacheline_aligned = ATOMIC64_INIT(0);
/* What this thread, as a vCPU, has published last. */
static __thread u64 published;

u64 read_combined(void)
{
	return combined_counter_read(&counter);
}

u64 read_pvclock(void)
{
	u64 last = raw_atomic64_read(&last_value);

	return pvclock_advance(&last_value, &published, last, device_cycles());
}
