// SPDX-License-Identifier: GPL-2.0-only
/* clock-probe: the loops of clock-check, one measurement a call. It prints JSON, a line a result. */
#define _GNU_SOURCE
#include "probe.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* More than any kernel's limit on threads. */
#define MAX_THREADS (1 << 22)

struct options {
	struct cpu_list cpus;
	enum path path;
	uint64_t threads;
	uint64_t calls;
	uint64_t duration_ns;
	uint64_t interval_ns;
	uint64_t parent;
	int64_t skew_ns;
	const char *reference;
};

static const char usage[] =
	"usage: clock-probe COMMAND --cpus LIST [OPTIONS]\n"
	"  scale --threads N --path vdso|syscall --duration NS\n"
	"  order --threads N --path vdso|syscall --calls N\n"
	"  offset\n"
	"  drift --reference raw|DEVICE --duration NS --interval NS\n"
	"  selftest\n"
	"  --parent PID  end when the process PID, which starts this one, has ended\n"
	"  --skew NS  order, offset: add this to every second thread's clock, to see it seen\n";

static bool parse_count(const char *text, uint64_t most, uint64_t *value)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*value = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0' && *value >= 1 && *value <= most;
}

static bool parse_path(const char *text, enum path *path)
{
	*path = strcmp(text, "syscall") == 0 ? PATH_SYSCALL : PATH_VDSO;
	return *path == PATH_SYSCALL || strcmp(text, "vdso") == 0;
}

static bool parse_skew(const char *text, int64_t *skew_ns)
{
	bool behind = *text == '-';
	uint64_t value;

	if (!parse_count(text + behind, NSEC_PER_SEC, &value))
		return false;
	*skew_ns = behind ? -(int64_t)value : (int64_t)value;
	return true;
}

static bool parse_option(int name, const char *text, struct options *options)
{
	switch (name) {
	case 'c':
		return cpu_list_parse(text, &options->cpus);
	case 't':
		return parse_count(text, MAX_THREADS, &options->threads);
	case 'p':
		return parse_path(text, &options->path);
	case 'd':
		return parse_count(text, INT64_MAX / 4, &options->duration_ns);
	case 'n':
		return parse_count(text, INT64_MAX / 4, &options->calls);
	case 'i':
		return parse_count(text, INT64_MAX / 4, &options->interval_ns);
	case 'k':
		return parse_count(text, INT32_MAX, &options->parent);
	case 's':
		return parse_skew(text, &options->skew_ns);
	case 'r':
		options->reference = text;
		return true;
	default:
		return false;
	}
}

static bool parse_options(int argc, char **argv, struct options *options)
{
	static const struct option names[] = {
		{ "cpus", required_argument, NULL, 'c' },     { "threads", required_argument, NULL, 't' },
		{ "path", required_argument, NULL, 'p' },     { "duration", required_argument, NULL, 'd' },
		{ "calls", required_argument, NULL, 'n' },    { "interval", required_argument, NULL, 'i' },
		{ "skew", required_argument, NULL, 's' },     { "reference", required_argument, NULL, 'r' },
		{ "parent", required_argument, NULL, 'k' },
		{ NULL, 0, NULL, 0 },
	};
	int name;

	while ((name = getopt_long(argc, argv, "", names, NULL)) != -1)
		if (name == '?' || !parse_option(name, optarg, options))
			return false;
	return optind == argc - 1 && options->cpus.nr > 0;
}

static enum status run(const char *command, const struct options *options)
{
	struct order_result result;

	if (strcmp(command, "scale") == 0)
		return scale_run(&options->cpus, options->threads, options->path, options->duration_ns);
	if (strcmp(command, "order") == 0)
		return order_measure(&options->cpus, options->threads, options->path, options->calls,
				     options->skew_ns, &result, true);
	if (strcmp(command, "offset") == 0)
		return offset_run(&options->cpus, options->skew_ns);
	if (strcmp(command, "drift") == 0)
		return drift_run(&options->cpus, options->reference, options->duration_ns,
				 options->interval_ns);
	if (strcmp(command, "selftest") == 0)
		return selftest_run(&options->cpus);
	fputs(usage, stderr);
	return STATUS_USAGE;
}

int main(int argc, char **argv)
{
	struct options options = {
		.threads = 1,
		.calls = 1000000,
		.duration_ns = NSEC_PER_SEC,
		.interval_ns = NSEC_PER_SEC / 10,
		.reference = "raw",
	};

	/* The tool alone reads the results: this process must not go on without it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* A result is to be seen when it is there, not when the buffer is full. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!parse_options(argc, argv, &options)) {
		fputs(usage, stderr);
		return STATUS_USAGE;
	}
	/* The kernel sends no signal for a parent that had ended before the prctl(). */
	if (options.parent && (uint64_t)getppid() != options.parent)
		raise(SIGKILL);
	return run(argv[optind], &options);
}
