// SPDX-License-Identifier: GPL-2.0-only
#include "device.h"

#include <time.h>
#include <linux/processor.h>
#include <linux/timex.h>

struct device device = { .latency_ns = 1000, .serial = true, .mask = UINT32_MAX };

static u64 monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (u64)now.tv_sec * 1000000000 + (u64)now.tv_nsec;
}

#if defined(__x86_64__)
#include <x86intrin.h>

#define SCALE_SHIFT 32
#define CALIBRATION_NS 20000000

static u64 start_cycles;
static u64 ns_per_cycle; /* times 2^SCALE_SHIFT */

static u64 cycles(void)
{
	/* As rdtsc_ordered(): not before what the program has loaded earlier. */
	_mm_lfence();
	return __rdtsc();
}

void device_init(void)
{
	u64 from_ns = monotonic_ns(), from = cycles(), ns;

	do {
		ns = monotonic_ns() - from_ns;
	} while (ns < CALIBRATION_NS);
	ns_per_cycle = (u64)(((unsigned __int128)ns << SCALE_SHIFT) / (cycles() - from));
	start_cycles = cycles();
}

static u64 ns_of(u64 now)
{
	return (u64)(((unsigned __int128)(now - start_cycles) * ns_per_cycle) >> SCALE_SHIFT);
}

u64 device_now(void)
{
	return ns_of(cycles());
}
#else
static u64 start_ns;

void device_init(void)
{
	start_ns = monotonic_ns();
}

u64 device_now(void)
{
	return monotonic_ns() - start_ns;
}

cycles_t get_cycles(void)
{
	return device_now();
}
#endif

u64 device_cycles(void)
{
	return device_now();
}

/*
 * Reads queue by reserving a time, not by a lock: a thread that is preempted keeps nobody from the
 * device, as little as a virtual CPU does.
 */
static u64 reserve(u64 now)
{
	u64 free_at, start;

	if (!device.serial)
		return now;
	free_at = __atomic_load_n(&device.free_at, __ATOMIC_RELAXED);
	do {
		start = free_at > now ? free_at : now;
	} while (!__atomic_compare_exchange_n(&device.free_at, &free_at, start + device.latency_ns, false,
					      __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
	return start;
}

u32 device_read(void)
{
	u64 start = reserve(device_now());

	while (device_now() < start + device.latency_ns)
		cpu_relax();
	return (u32)(start + device.latency_ns / 2) & device.mask;
}
