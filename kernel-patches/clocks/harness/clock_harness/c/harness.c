// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads that read one counter as fast as they can, in one of the ways of algorithms.h.
 *
 *	clock-harness measure|together|check ALGORITHM THREADS CPUS LATENCY_NS serial|parallel BITS MS
 *
 * CPUS is a list such as 0,1,5: the threads are pinned to these CPUs in turn.  Prints one line of JSON.
 *
 *	measure   does nothing but read.
 *	together  counts only while all threads run: calls of a thread in batches of BATCH, in which it
 *	          was not preempted and each other thread made a quarter as many calls at least.
 *	check     looks at each value: whether it is earlier than one that a call had returned before
 *	          this one started, and how much older than the start of its call.  One read in
 *	          NMI_EVERY plays the handler of an NMI.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/preempt.h>
#include <linux/processor.h>

#include "algorithms.h"
#include "device.h"

#define MAX_THREADS 1024
#define NMI_EVERY 64
#define BATCH 200
#define MAX_TOGETHER 64 /* threads: all others are looked at in each batch */
#define OLD_NS 100000 /* twice what the kernel takes for a read that was held up */

struct algorithm {
	const char *name;
	u64 (*read)(void);
	bool shared; /* reads device_read(), else device_cycles() */
};

static const struct algorithm algorithms[] = {
	{ "plain", read_plain, true },
	{ "hpet-upstream", read_hpet, true },
	{ "combined", read_combined, true },
	{ "retry", read_retry, false },
	{ "winner", read_winner, false },
	{ "pvclock-upstream", read_pvclock_stock, false },
	{ "pvclock", read_pvclock, false },
};

struct worker {
	pthread_t thread;
	int cpu;
	u64 calls;
	u64 cpu_ns;
	u64 together_calls;
	u64 together_ns;
	u64 violations;
	u64 old;
	u64 oldest_ns;
	u64 worst_back_ns;
} __cacheline_aligned;

static struct worker workers[MAX_THREADS];
static const struct algorithm *algorithm;
static enum { MEASURE, TOGETHER, CHECK } mode;
static int threads;
static bool stop __cacheline_aligned;
static pthread_barrier_t barrier;
/* The latest time that a call has returned. */
static u64 latest __cacheline_aligned;

__thread bool shim_in_nmi;

u64 read_plain(void)
{
	return device_read();
}

static void die(const char *what, int error)
{
	fprintf(stderr, "clock-harness: %s: %s\n", what, strerror(error));
	exit(1);
}

static void must(const char *what, int error)
{
	if (error)
		die(what, error);
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	must("cannot pin a thread", pthread_setaffinity_np(pthread_self(), sizeof(set), &set));
}

/* The bits that a counter of fewer has lost: the value is of the time before `now`. */
static u64 unwrap(u64 value, u64 now)
{
	return algorithm->shared ? now - (((u32)now - (u32)value) & device.mask) : value;
}

static void advance_latest(u64 value)
{
	u64 old = __atomic_load_n(&latest, __ATOMIC_SEQ_CST);

	while (old < value && !__atomic_compare_exchange_n(&latest, &old, value, false, __ATOMIC_SEQ_CST,
							   __ATOMIC_SEQ_CST))
		;
}

static void checked_call(struct worker *me)
{
	u64 before = __atomic_load_n(&latest, __ATOMIC_SEQ_CST);
	u64 start = device_now(), value;

	shim_in_nmi = me->calls % NMI_EVERY == NMI_EVERY - 1;
	value = algorithm->read();
	shim_in_nmi = false;
	value = unwrap(value, device_now());
	if (value < before) {
		me->violations++;
		if (before - value > me->worst_back_ns)
			me->worst_back_ns = before - value;
	}
	if (value < start && start - value > me->oldest_ns)
		me->oldest_ns = start - value;
	me->old += value + OLD_NS < start;
	advance_latest(value);
}

static u64 cpu_time_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (u64)time.tv_sec * 1000000000 + (u64)time.tv_nsec;
}

static long preemptions(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nivcsw;
}

static void batch(struct worker *me)
{
	u64 before[MAX_TOGETHER], start, ns;
	long preempted = preemptions();

	for (int i = 0; i < threads; i++)
		before[i] = READ_ONCE(workers[i].calls);
	start = device_now();
	for (int i = 0; i < BATCH; i++) {
		algorithm->read();
		WRITE_ONCE(me->calls, me->calls + 1);
	}
	ns = device_now() - start;
	for (int i = 0; i < threads; i++)
		if (READ_ONCE(workers[i].calls) - before[i] < BATCH / 4)
			return;
	if (preemptions() != preempted)
		return;
	me->together_calls += BATCH;
	me->together_ns += ns;
}

static void one_call(struct worker *me)
{
	if (mode == CHECK)
		checked_call(me);
	else
		algorithm->read();
	me->calls++;
}

static void *work(void *argument)
{
	struct worker *me = argument;
	u64 start;

	pin(me->cpu);
	pthread_barrier_wait(&barrier);
	start = cpu_time_ns();
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		if (mode == TOGETHER)
			batch(me);
		else
			one_call(me);
	}
	me->cpu_ns = cpu_time_ns() - start;
	return NULL;
}

static unsigned long number(const char *text, unsigned long least, unsigned long most, const char *what)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *text == '\0' || *text == '-' || *end != '\0' || value < least || value > most) {
		fprintf(stderr, "clock-harness: %s is '%s', not a number from %lu to %lu\n", what, text, least,
			most);
		exit(2);
	}
	return value;
}

static int cpus_of(char *list, int *cpus)
{
	int count = 0;
	char *rest = list, *item;

	while ((item = strsep(&rest, ",")) && count < CPU_SETSIZE)
		cpus[count++] = (int)number(item, 0, CPU_SETSIZE - 1, "a CPU");
	return count;
}

static const struct algorithm *algorithm_named(const char *name)
{
	for (size_t i = 0; i < sizeof(algorithms) / sizeof(*algorithms); i++)
		if (!strcmp(algorithms[i].name, name))
			return &algorithms[i];
	fprintf(stderr, "clock-harness: there is no algorithm '%s'\n", name);
	exit(2);
}

static void report(u64 ns)
{
	u64 calls = 0, cpu = 0, violations = 0, old = 0, oldest = 0, back = 0, least = UINT64_MAX, most = 0;

	for (int i = 0; i < threads; i++) {
		const struct worker *worker = &workers[i];

		calls += mode == TOGETHER ? worker->together_calls : worker->calls;
		cpu += mode == TOGETHER ? worker->together_ns : worker->cpu_ns;
		violations += worker->violations;
		old += worker->old;
		least = worker->calls < least ? worker->calls : least;
		most = worker->calls > most ? worker->calls : most;
		oldest = worker->oldest_ns > oldest ? worker->oldest_ns : oldest;
		back = worker->worst_back_ns > back ? worker->worst_back_ns : back;
	}
	/* Then all of them ran. */
	if (mode == TOGETHER)
		ns = cpu / (u64)threads;
	printf("{\"algorithm\": \"%s\", \"threads\": %d, \"latency_ns\": %llu, \"serial\": %s, ", algorithm->name,
	       threads, (unsigned long long)device.latency_ns, device.serial ? "true" : "false");
	printf("\"calls\": %llu, \"ns\": %llu, \"cpu_ns\": %llu, \"least_calls\": %llu, \"most_calls\": %llu",
	       (unsigned long long)calls, (unsigned long long)ns, (unsigned long long)cpu,
	       (unsigned long long)least, (unsigned long long)most);
	if (mode == CHECK)
		printf(", \"violations\": %llu, \"worst_back_ns\": %llu, \"oldest_ns\": %llu, \"old_calls\": %llu",
		       (unsigned long long)violations, (unsigned long long)back, (unsigned long long)oldest,
		       (unsigned long long)old);
	printf("}\n");
}

int main(int argc, char **argv)
{
	static int cpus[CPU_SETSIZE];
	int cpu_count;
	struct timespec duration;
	unsigned long bits, ms;
	u64 start;

	if (argc != 9 ||
	    (strcmp(argv[1], "measure") && strcmp(argv[1], "together") && strcmp(argv[1], "check")) ||
	    (strcmp(argv[6], "serial") && strcmp(argv[6], "parallel"))) {
		fprintf(stderr, "usage: clock-harness measure|together|check ALGORITHM THREADS CPUS LATENCY_NS "
				"serial|parallel BITS MS\n");
		return 2;
	}
	mode = !strcmp(argv[1], "check") ? CHECK : !strcmp(argv[1], "together") ? TOGETHER : MEASURE;
	algorithm = algorithm_named(argv[2]);
	threads = (int)number(argv[3], 1, mode == TOGETHER ? MAX_TOGETHER : MAX_THREADS, "the number of threads");
	cpu_count = cpus_of(argv[4], cpus);
	device.latency_ns = number(argv[5], 0, 1000000, "the latency in ns");
	device.serial = !strcmp(argv[6], "serial");
	bits = number(argv[7], 20, 32, "the number of bits");
	device.mask = (u32)(UINT32_MAX >> (32 - bits));
	ms = number(argv[8], 1, 600000, "the duration in ms");
	device_init();

	must("cannot make a barrier", pthread_barrier_init(&barrier, NULL, (unsigned int)threads + 1));
	for (int i = 0; i < threads; i++) {
		workers[i].cpu = cpus[i % cpu_count];
		must("cannot start a thread", pthread_create(&workers[i].thread, NULL, work, &workers[i]));
	}
	pthread_barrier_wait(&barrier);
	start = device_now();
	duration = (struct timespec){ .tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000 };
	while (nanosleep(&duration, &duration) && errno == EINTR)
		;
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < threads; i++)
		must("cannot wait for a thread", pthread_join(workers[i].thread, NULL));
	report(device_now() - start);
	return 0;
}
