// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whether a call that starts after another has returned ever returns less, on whatever CPU.
 *
 * All threads share one word, the largest value that any finished call has returned. Each call is
 *
 *	floor = the word;	(acquire)
 *	now = the clock;
 *	word = max(word, now);
 *
 * A call that left FLOOR there had returned when the word was read, and the clock is read after it:
 * - The load is over before the clock is read. That is more than C11 says, since a clock is no memory.
 *   x86 reads its counter behind an LFENCE or by RDTSCP, both of which wait for earlier loads. On
 *   POWER an acquire load ends in compare, branch and ISYNC, and nothing behind an ISYNC is begun
 *   before it.
 * - The store carries NOW, so it cannot come before the clock was read.
 * So NOW < FLOOR is a violation, whatever the scheduler did in between.
 */
#define _GNU_SOURCE
#include "probe.h"

#include <inttypes.h>
#include <sched.h>

#define BATCH 1024

struct order {
	_Alignas(CACHE_LINE) _Atomic int64_t latest;
	_Alignas(CACHE_LINE) _Atomic uint64_t taken;
	_Alignas(CACHE_LINE) uint64_t calls;
	enum path path;
};

static void publish(struct order *order, int64_t seen, int64_t now)
{
	while (seen < now && !atomic_compare_exchange_weak_explicit(&order->latest, &seen, now,
								    memory_order_release,
								    memory_order_relaxed))
		;
}

static void order_batch(struct worker *worker, struct order *order, enum path path, uint64_t calls)
{
	int64_t own = worker->last_ns;

	for (uint64_t i = 0; i < calls; i++) {
		int64_t floor = atomic_load_explicit(&order->latest, memory_order_acquire);
		int64_t now = clock_read_ns(path) + worker->skew_ns;

		if (floor > own)
			worker->crossed++;
		if (now < floor) {
			worker->violations++;
			if (floor - now > worker->worst_ns)
				worker->worst_ns = floor - now;
		}
		publish(order, floor, now);
		own = now;
	}
	worker->last_ns = own;
	worker->calls += calls;
}

static void order_work(struct worker *worker)
{
	struct order *order = worker->shared;
	const enum path path = order->path;
	int64_t cpu_started = clock_syscall_ns(CLOCK_THREAD_CPUTIME_ID);
	int64_t started = clock_vdso_ns(CLOCK_MONOTONIC);

	for (;;) {
		uint64_t first = atomic_fetch_add_explicit(&order->taken, BATCH, memory_order_relaxed);

		if (first >= order->calls)
			break;
		order_batch(worker, order, path, order->calls - first < BATCH ? order->calls - first : BATCH);
		if (sched_getcpu() != worker->cpu)
			worker->moved = true;
	}
	worker->elapsed_ns = clock_vdso_ns(CLOCK_MONOTONIC) - started;
	worker->cpu_ns = clock_syscall_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_started;
}

static void add_up(const struct team *team, struct order_result *result)
{
	*result = (struct order_result){ 0 };
	for (unsigned int i = 0; i < team->nr; i++) {
		const struct worker *worker = &team->workers[i];

		result->calls += worker->calls;
		result->crossed += worker->crossed;
		result->violations += worker->violations;
		if (worker->worst_ns > result->worst_ns)
			result->worst_ns = worker->worst_ns;
	}
}

/* Make so many calls, taken by the threads as they come; print one JSON object if asked to. */
enum status order_measure(const struct cpu_list *cpus, unsigned int threads, enum path path,
			  uint64_t calls, int64_t skew_ns, struct order_result *result, bool print)
{
	struct order order = { .path = path, .calls = calls };
	struct team team;
	enum status status = team_start(&team, threads, cpus, order_work, &order, skew_ns);

	if (status != STATUS_OK)
		return status;
	team_join(&team);
	add_up(&team, result);
	if (print) {
		printf("{\"vdso\":%s,\"calls\":%" PRIu64 ",\"crossed\":%" PRIu64 ",\"violations\":%" PRIu64
		       ",\"worst_ns\":%" PRId64 ",\"threads\":",
		       clock_has_vdso() ? "true" : "false", result->calls, result->crossed,
		       result->violations, result->worst_ns);
		team_print(&team);
		puts("}");
	}
	team_free(&team);
	return STATUS_OK;
}
