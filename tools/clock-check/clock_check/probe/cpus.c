// SPDX-License-Identifier: GPL-2.0-only
/* The kernel's CPU lists ("0-3,8"), and putting a thread on a CPU. */
#define _GNU_SOURCE
#include "probe.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

/* Far above any kernel's NR_CPUS. */
#define MAX_CPU (1 << 20)

static bool parse_number(const char **text, int *number)
{
	char *end;
	long value;

	/* strtol() also takes blanks and signs, which no CPU list has. */
	if (**text < '0' || **text > '9')
		return false;
	value = strtol(*text, &end, 10);
	if (value > MAX_CPU)
		return false;
	*number = (int)value;
	*text = end;
	return true;
}

static bool append_range(struct cpu_list *list, int first, int last)
{
	size_t more = (size_t)(last - first) + 1;
	int *cpus = realloc(list->cpus, (list->nr + more) * sizeof(*cpus));

	if (!cpus)
		return false;
	list->cpus = cpus;
	for (int cpu = first; cpu <= last; cpu++)
		list->cpus[list->nr++] = cpu;
	return true;
}

/* Fill in the list, which is the caller's to free; false when the text is no CPU list. */
bool cpu_list_parse(const char *text, struct cpu_list *list)
{
	list->cpus = NULL;
	list->nr = 0;
	for (;;) {
		int first, last;

		if (!parse_number(&text, &first))
			return false;
		last = first;
		if (*text == '-') {
			text++;
			if (!parse_number(&text, &last) || last < first)
				return false;
		}
		if (!append_range(list, first, last))
			return false;
		if (*text == '\0')
			return true;
		if (*text++ != ',')
			return false;
	}
}

/* Run the calling thread on this CPU alone; 0, or an errno. */
int cpu_pin(int cpu)
{
	/* A set of the size that is needed: cpu_set_t ends at 1024, and there are larger machines. */
	size_t size = CPU_ALLOC_SIZE(cpu + 1);
	cpu_set_t *set = CPU_ALLOC(cpu + 1);
	int error = 0;

	if (!set)
		return ENOMEM;
	CPU_ZERO_S(size, set);
	CPU_SET_S(cpu, size, set);
	if (sched_setaffinity(0, size, set) != 0)
		error = errno;
	CPU_FREE(set);
	return error;
}
