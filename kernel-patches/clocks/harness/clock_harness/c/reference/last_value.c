// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counters that each CPU has of its own, kept from going backwards by the last value any CPU has
 * returned: the loop that retries as long as it loses, of Linux on ia64 before 2007; what replaced
 * it there; and the end of pvclock_clocksource_read() in Linux 6.12.
 */
#include <linux/atomic.h>
#include <linux/cache.h>

#include "../algorithms.h"
#include "../device.h"

static atomic64_t last_value __cacheline_aligned = ATOMIC64_INIT(0);

u64 read_retry(void)
{
	u64 last, now;

	do {
		last = atomic64_read(&last_value);
		now = device_cycles();
		if (now <= last)
			return last;
	} while (!atomic64_try_cmpxchg(&last_value, (s64 *)&last, now));

	return now;
}

u64 read_winner(void)
{
	u64 last = atomic64_read(&last_value);
	u64 now = device_cycles();

	if (now <= last)
		return last;
	if (!atomic64_try_cmpxchg(&last_value, (s64 *)&last, now))
		return last;
	return now;
}

u64 read_pvclock_stock(void)
{
	u64 ret = device_cycles();
	u64 last = atomic64_read(&last_value);

	do {
		if (ret <= last)
			return last;
	} while (!atomic64_try_cmpxchg(&last_value, (s64 *)&last, ret));

	return ret;
}
