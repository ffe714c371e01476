/* SPDX-License-Identifier: GPL-2.0-only */
/* What the parts of clock-probe share. Times are in nanoseconds, CPUs are the kernel's numbers. */
#ifndef PROBE_H
#define PROBE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define NSEC_PER_SEC 1000000000LL
#define CACHE_LINE 128

/* Exit codes, as hotplug_host.clocks.probe has them. */
enum status {
	STATUS_OK = 0,
	STATUS_FAILED = 1,
	STATUS_USAGE = 2,
	/* A thread could not be put on its CPU: it is offline, or not ours to use. */
	STATUS_CPU = 3,
	/* The reference clock is missing, or does not let itself be read. */
	STATUS_REFERENCE = 4,
};

/* clock.c: the clock under test, and the two ways to read it. */
enum path { PATH_VDSO, PATH_SYSCALL };

int64_t clock_vdso_ns(clockid_t clock);
int64_t clock_syscall_ns(clockid_t clock);
bool clock_has_vdso(void);

static inline int64_t clock_read_ns(enum path path)
{
	return path == PATH_VDSO ? clock_vdso_ns(CLOCK_MONOTONIC) : clock_syscall_ns(CLOCK_MONOTONIC);
}

void sleep_until_ns(int64_t when);

/* cpus.c: the CPUs to measure on. */
struct cpu_list {
	int *cpus;
	size_t nr;
};

bool cpu_list_parse(const char *text, struct cpu_list *list);
int cpu_pin(int cpu);

/* team.c: threads, each on a CPU of its own where there are enough, that begin together. */
struct worker;
typedef void work_fn(struct worker *worker);

struct worker {
	void *shared;
	work_fn *work;
	struct team *team;
	pthread_t thread;
	unsigned int index;
	int cpu;
	/* Added to what this thread's clock says: for proving that the checks see a wrong clock. */
	int64_t skew_ns;
	/* What its clock said last. */
	int64_t last_ns;
	/* Results. CROSSED: calls whose floor came from another thread. */
	int pin_error;
	bool moved;
	uint64_t calls;
	int64_t elapsed_ns;
	int64_t cpu_ns;
	uint64_t crossed;
	uint64_t violations;
	int64_t worst_ns;
} __attribute__((aligned(CACHE_LINE)));

struct team {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned int ready;
	enum { TEAM_WAIT, TEAM_GO, TEAM_CANCEL } gate;
	unsigned int nr;
	struct worker *workers;
};

enum status team_start(struct team *team, unsigned int nr, const struct cpu_list *cpus,
		       work_fn *work, void *shared, int64_t skew_ns);
void team_join(struct team *team);
void team_free(struct team *team);
void team_print(const struct team *team);

/* scale.c */
enum status scale_run(const struct cpu_list *cpus, unsigned int threads, enum path path,
		      int64_t duration_ns);

/* order.c */
struct order_result {
	uint64_t calls;
	uint64_t crossed;
	uint64_t violations;
	int64_t worst_ns;
};

enum status order_measure(const struct cpu_list *cpus, unsigned int threads, enum path path,
			  uint64_t calls, int64_t skew_ns, struct order_result *result, bool print);

/* offset.c */
struct offset_result {
	/* How far the second CPU's clock is ahead of the first's: somewhere in here. */
	int64_t low_ns;
	int64_t high_ns;
	unsigned int rounds;
	bool moved;
};

enum status offset_measure(int base, int cpu, int64_t skew_ns, struct offset_result *result);
enum status offset_run(const struct cpu_list *cpus, int64_t skew_ns);

/* drift.c: the reference said REFERENCE_NS between BEFORE_NS and AFTER_NS of the system clock. */
struct sample {
	int64_t before_ns;
	int64_t reference_ns;
	int64_t after_ns;
};

struct reference {
	/* Fills in the sample; 0, or an errno. */
	int (*read)(struct reference *reference, struct sample *sample);
	clockid_t clock;
	int fd;
	/* Of a clock of whole seconds: reads them into *seconds; 0, or an errno. */
	int (*seconds)(struct reference *reference, int64_t *seconds);
	/* When the next second of it begins, in the system clock's time; 0 when not known yet. */
	int64_t next_edge_ns;
};

int reference_read_clock(struct reference *reference, struct sample *sample);
int reference_read_edge(struct reference *reference, struct sample *sample);
enum status drift_run(const struct cpu_list *cpus, const char *name, int64_t duration_ns,
		      int64_t interval_ns);

/* selftest.c */
enum status selftest_run(const struct cpu_list *cpus);

#endif
