// SPDX-License-Identifier: GPL-2.0-only
/* Whether the checks see clocks made wrong on purpose, and say nothing about right ones. */
#include "probe.h"

#include <errno.h>
#include <stdlib.h>

#define CALLS 200000
#define SKEW_NS 5000000
#define TRIES 100

static unsigned int checks, failures;

static void check(bool good, const char *what)
{
	checks++;
	if (good)
		return;
	failures++;
	fprintf(stderr, "self-test failed: %s\n", what);
}

static bool parses_to(const char *text, size_t nr, int last)
{
	struct cpu_list list;
	bool same = cpu_list_parse(text, &list) && list.nr == nr && list.cpus[nr - 1] == last;

	free(list.cpus);
	return same;
}

static bool refuses(const char *text)
{
	struct cpu_list list;
	bool refused = !cpu_list_parse(text, &list);

	free(list.cpus);
	return refused;
}

static void test_cpu_lists(void)
{
	check(parses_to("0", 1, 0), "CPU list 0");
	check(parses_to("0-3,8", 5, 8), "CPU list 0-3,8");
	check(parses_to("1023-1919", 897, 1919), "CPU list beyond 1023");
	check(refuses(""), "an empty CPU list");
	check(refuses("0,"), "CPU list 0,");
	check(refuses("3-1"), "CPU list 3-1");
	check(refuses("-1"), "CPU list -1");
	check(refuses("0 1"), "CPU list 0 1");
	check(refuses("99999999999999999999"), "an enormous CPU number");
}

static void test_order(const struct cpu_list *cpus)
{
	struct order_result result;

	for (enum path path = PATH_VDSO; path <= PATH_SYSCALL; path++) {
		bool done = order_measure(cpus, 2, path, CALLS, 0, &result, false) == STATUS_OK;

		check(done && result.calls == CALLS, "order: as many calls as asked for");
		check(done && result.violations == 0, "order: this machine's clock goes backwards");
	}
	/* On a busy machine one thread may have made all calls before the other begins. */
	result.violations = 0;
	for (int try = 0; try < TRIES && !result.violations; try++)
		order_measure(cpus, 2, PATH_VDSO, CALLS, -SKEW_NS, &result, false);
	check(result.violations > 0 && result.worst_ns > 0,
	      "order: a thread whose clock is behind is seen");
}

static void test_offset(const struct cpu_list *cpus)
{
	int base = cpus->cpus[0], cpu = cpus->cpus[cpus->nr > 1];
	struct offset_result result;

	check(offset_measure(base, cpu, 0, &result) == STATUS_OK && result.low_ns <= 0 &&
		      result.high_ns >= 0,
	      "offset: zero is within the bounds of a right clock");
	check(offset_measure(base, cpu, SKEW_NS, &result) == STATUS_OK && result.low_ns <= SKEW_NS &&
		      result.high_ns >= SKEW_NS,
	      "offset: a clock that is ahead is ahead by what it is");
	check(offset_measure(base, cpu, -SKEW_NS, &result) == STATUS_OK && result.low_ns <= -SKEW_NS &&
		      result.high_ns >= -SKEW_NS,
	      "offset: a clock that is behind is behind by what it is");
}

/* A clock of whole seconds whose seconds begin a quarter of one after the system clock's. */
static int quarter_late(struct reference *reference, int64_t *seconds)
{
	(void)reference;
	*seconds = (clock_vdso_ns(CLOCK_MONOTONIC) - NSEC_PER_SEC / 4) / NSEC_PER_SEC;
	return 0;
}

static int broken(struct reference *reference, int64_t *seconds)
{
	(void)reference;
	(void)seconds;
	return EIO;
}

static bool edge_is_inside(const struct sample *sample)
{
	int64_t edge = sample->reference_ns + NSEC_PER_SEC / 4;

	return sample->before_ns <= edge && edge <= sample->after_ns;
}

static void test_references(void)
{
	struct reference clock = { .clock = CLOCK_MONOTONIC, .fd = -1 };
	struct reference edge = { .seconds = quarter_late, .fd = -1 };
	struct reference none = { .seconds = broken, .fd = -1 };
	struct sample sample = { 0, 0, 0 };

	check(reference_read_clock(&clock, &sample) == 0 && sample.before_ns <= sample.reference_ns &&
		      sample.reference_ns <= sample.after_ns,
	      "reference: a clock lies between the readings around it");
	check(reference_read_edge(&edge, &sample) == 0 && edge_is_inside(&sample),
	      "reference: the second begins between the readings around it");
	check(reference_read_edge(&edge, &sample) == 0 && edge_is_inside(&sample),
	      "reference: so does the next, which is waited for");
	check(reference_read_edge(&none, &sample) == EIO, "reference: a failing clock fails");
}

enum status selftest_run(const struct cpu_list *cpus)
{
	test_cpu_lists();
	test_order(cpus);
	test_offset(cpus);
	test_references();
	printf("{\"checks\":%u,\"failures\":%u}\n", checks, failures);
	return failures ? STATUS_FAILED : STATUS_OK;
}
