// SPDX-License-Identifier: GPL-2.0-only
/*
 * How far one CPU's clock is ahead of another's.
 *
 * Two threads hand a word back and forth. What the second reads on its clock, it reads between two
 * readings of the first; each round so bounds the difference from both sides, and all rounds together
 * bound it by the narrowest of each. Without an offset zero is within the bounds; where it is not, there
 * is one.
 */
#define _GNU_SOURCE
#include "probe.h"

#include <inttypes.h>
#include <sched.h>

#define ROUNDS 2000
/* Two threads on one CPU, or on an emulator's, take turns only as the scheduler lets them. */
#define MOST_NS (NSEC_PER_SEC / 4)
#define SPINS 2000

struct offset {
	_Alignas(CACHE_LINE) atomic_uint turn;
	_Alignas(CACHE_LINE) int64_t answer_ns;
	atomic_bool over;
	struct offset_result result;
};

/* Wait for the other's turn to be over; false when the other has ended it. */
static bool await_turn(struct offset *offset, unsigned int turn)
{
	for (unsigned int spins = 0; atomic_load_explicit(&offset->turn, memory_order_acquire) != turn;) {
		if (atomic_load_explicit(&offset->over, memory_order_acquire))
			return false;
		if (++spins > SPINS)
			sched_yield();
	}
	return true;
}

static void ask(struct worker *worker, struct offset *offset)
{
	struct offset_result *result = &offset->result;
	int64_t began = clock_vdso_ns(CLOCK_MONOTONIC);

	result->low_ns = INT64_MIN;
	result->high_ns = INT64_MAX;
	for (unsigned int round = 0; round < ROUNDS; round++) {
		int64_t before = clock_vdso_ns(CLOCK_MONOTONIC) + worker->skew_ns;
		int64_t after, answer;

		atomic_store_explicit(&offset->turn, 2 * round + 1, memory_order_release);
		await_turn(offset, 2 * round + 2);
		after = clock_vdso_ns(CLOCK_MONOTONIC) + worker->skew_ns;
		answer = offset->answer_ns;
		if (answer - after > result->low_ns)
			result->low_ns = answer - after;
		if (answer - before < result->high_ns)
			result->high_ns = answer - before;
		result->rounds = round + 1;
		if (after - began > MOST_NS)
			break;
	}
	atomic_store_explicit(&offset->over, true, memory_order_release);
}

static void answer(struct worker *worker, struct offset *offset)
{
	for (unsigned int round = 0; await_turn(offset, 2 * round + 1); round++) {
		offset->answer_ns = clock_vdso_ns(CLOCK_MONOTONIC) + worker->skew_ns;
		atomic_store_explicit(&offset->turn, 2 * round + 2, memory_order_release);
	}
}

static void offset_work(struct worker *worker)
{
	if (worker->index == 0)
		ask(worker, worker->shared);
	else
		answer(worker, worker->shared);
	if (sched_getcpu() != worker->cpu)
		worker->moved = true;
}

/* SKEW_NS is added to the second CPU's clock. */
enum status offset_measure(int base, int cpu, int64_t skew_ns, struct offset_result *result)
{
	int both[] = { base, cpu };
	const struct cpu_list cpus = { .cpus = both, .nr = 2 };
	struct offset offset = { .turn = 0 };
	struct team team;
	enum status status = team_start(&team, 2, &cpus, offset_work, &offset, skew_ns);

	if (status != STATUS_OK)
		return status;
	team_join(&team);
	*result = offset.result;
	result->moved = team.workers[0].moved || team.workers[1].moved;
	team_free(&team);
	return STATUS_OK;
}

/* Print one JSON object for each CPU but the first, all against the first. */
enum status offset_run(const struct cpu_list *cpus, int64_t skew_ns)
{
	for (size_t i = 1; i < cpus->nr; i++) {
		struct offset_result result;
		enum status status = offset_measure(cpus->cpus[0], cpus->cpus[i], skew_ns, &result);

		if (status != STATUS_OK)
			return status;
		printf("{\"cpu\":%d,\"base\":%d,\"low_ns\":%" PRId64 ",\"high_ns\":%" PRId64
		       ",\"rounds\":%u,\"moved\":%s}\n",
		       cpus->cpus[i], cpus->cpus[0], result.low_ns, result.high_ns, result.rounds,
		       result.moved ? "true" : "false");
	}
	return STATUS_OK;
}
