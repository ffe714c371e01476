// SPDX-License-Identifier: GPL-2.0-only
/*
 * What it takes to tell every clock-event device of a machine that the rate of the clock has changed.
 *
 *	devices COUNT CPU OTHER_CPU ROUNDS
 *
 * Prints the time (ns) of each round, a line each.  Before a round the thread on OTHER_CPU programs all
 * devices, as their own CPUs do, so that what has to be written is in that CPU's cache.  If both CPUs are
 * the same, it is in the cache of the one that writes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <linux/types.h>

#define U32_MAX UINT32_MAX
#define CLOCK_EVT_FEAT_NO_ADJUST 0x100
#define CACHE_LINE 64
/* The devices of CPUs are as far from each other as their per-CPU areas, which share no page. */
#define STRIDE (4096 + CACHE_LINE)
#define WARM_UP 10

#define fls(x) ((x) ? 32 - __builtin_clz(x) : 0)
#define min(a, b) ((a) < (b) ? (a) : (b))
#define min_t(type, a, b) min((type)(a), (type)(b))
#define clamp(value, low, high) ((value) < (low) ? (low) : (value) > (high) ? (high) : (value))
#define div_u64(a, b) ((u64)(a) / (u32)(b))

/* What of the kernel's is asked here: all of it is in one cache line there, too. */
struct clock_event_device {
	s64 next_event;
	u32 mult;
	u32 shift;
	u32 features;
	u32 adj_mult;
	u32 adj_shift;
	u32 rate_gen;
} __attribute__((__aligned__(CACHE_LINE)));

struct timekeeping_rate {
	u32 gen;
	u32 mono_mult;
	u32 raw_mult;
};

#include "adjust.h"

static void must(const char *what, int failed)
{
	if (!failed)
		return;
	fprintf(stderr, "devices: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void move_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	must("cannot move to another CPU", sched_setaffinity(0, sizeof(set), &set));
}

static struct clock_event_device *device(char *area, long number)
{
	return (struct clock_event_device *)(area + number * STRIDE);
}

static u64 now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (u64)time.tv_sec * 1000000000 + (u64)time.tv_nsec;
}

int main(int argc, char **argv)
{
	long count, rounds;
	int cpu, other;
	char *area;

	if (argc != 5) {
		fprintf(stderr, "usage: devices COUNT CPU OTHER_CPU ROUNDS\n");
		return 2;
	}
	count = atol(argv[1]);
	cpu = atoi(argv[2]);
	other = atoi(argv[3]);
	rounds = atol(argv[4]);
	area = mmap(NULL, (size_t)count * STRIDE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must("no memory", area == MAP_FAILED);
	for (long i = 0; i < count; i++)
		/* The decrementer of a POWER10: 512 MHz. */
		*device(area, i) = (struct clock_event_device){ .mult = 1099511628, .shift = 31 };

	for (long round = -WARM_UP; round < rounds; round++) {
		struct timekeeping_rate rate = {
			.gen = (u32)(round + WARM_UP + 1),
			.mono_mult = 1000000000 + (u32)(round % 500) * 1000,
			.raw_mult = 1000000000,
		};
		u64 begin;

		move_to(other);
		for (long i = 0; i < count; i++)
			device(area, i)->next_event = round;
		move_to(cpu);
		begin = now();
		for (long i = 0; i < count; i++)
			cev_adjust(device(area, i), &rate);
		begin = now() - begin;
		for (long i = 0; i < count; i++)
			must("a device was not told", device(area, i)->rate_gen != rate.gen);
		if (round >= 0)
			printf("%llu\n", (unsigned long long)begin);
	}
	return 0;
}
