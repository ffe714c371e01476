// SPDX-License-Identifier: GPL-2.0-only
/* How often threads can read the clock at the same time, each as fast as it can. */
#define _GNU_SOURCE
#include "probe.h"

#include <sched.h>

/* Calls between two looks at whether to stop: few for a slow clock, many enough not to be seen. */
#define BATCH 256

struct scale {
	enum path path;
	atomic_bool stop;
};

static void scale_work(struct worker *worker)
{
	struct scale *scale = worker->shared;
	const enum path path = scale->path;
	int64_t cpu_started = clock_syscall_ns(CLOCK_THREAD_CPUTIME_ID);
	int64_t started = clock_vdso_ns(CLOCK_MONOTONIC);

	do {
		for (int i = 0; i < BATCH; i++)
			clock_read_ns(path);
		worker->calls += BATCH;
		if (sched_getcpu() != worker->cpu)
			worker->moved = true;
	} while (!atomic_load_explicit(&scale->stop, memory_order_relaxed));
	worker->elapsed_ns = clock_vdso_ns(CLOCK_MONOTONIC) - started;
	worker->cpu_ns = clock_syscall_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_started;
}

/* Measure, and print one JSON object. */
enum status scale_run(const struct cpu_list *cpus, unsigned int threads, enum path path,
		      int64_t duration_ns)
{
	struct scale scale = { .path = path };
	struct team team;
	enum status status = team_start(&team, threads, cpus, scale_work, &scale, 0);

	if (status != STATUS_OK)
		return status;
	sleep_until_ns(clock_vdso_ns(CLOCK_MONOTONIC) + duration_ns);
	atomic_store_explicit(&scale.stop, true, memory_order_relaxed);
	team_join(&team);
	printf("{\"vdso\":%s,\"threads\":", clock_has_vdso() ? "true" : "false");
	team_print(&team);
	puts("}");
	team_free(&team);
	return STATUS_OK;
}
