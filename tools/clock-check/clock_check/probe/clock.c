// SPDX-License-Identifier: GPL-2.0-only
/* Reading the system clock as programs do, and past the vDSO. */
#include "probe.h"

#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

static int64_t to_ns(const struct timespec *time)
{
	return (int64_t)time->tv_sec * NSEC_PER_SEC + time->tv_nsec;
}

/* The C library's: through the vDSO where there is one that can read the clocksource. */
int64_t clock_vdso_ns(clockid_t clock)
{
	struct timespec now = { 0, 0 };

	clock_gettime(clock, &now);
	return to_ns(&now);
}

int64_t clock_syscall_ns(clockid_t clock)
{
	struct timespec now = { 0, 0 };

	syscall(SYS_clock_gettime, clock, &now);
	return to_ns(&now);
}

bool clock_has_vdso(void)
{
	return getauxval(AT_SYSINFO_EHDR) != 0;
}

void sleep_until_ns(int64_t when)
{
	struct timespec until = { .tv_sec = when / NSEC_PER_SEC, .tv_nsec = when % NSEC_PER_SEC };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
		;
}
