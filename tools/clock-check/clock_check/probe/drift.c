// SPDX-License-Identifier: GPL-2.0-only
/* The system clock against another one, from each CPU in turn. */
#define _GNU_SOURCE
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/rtc.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The narrowest of so many tries counts: an interrupt widens some. */
#define TRIES 16
/* A clock of whole seconds is watched without a pause from so long before the next, for so long. */
#define EDGE_EARLY_NS (NSEC_PER_SEC / 20)
#define EDGE_MOST_NS (3 * NSEC_PER_SEC)
/* From linux/posix-timers.h: how a clock device's descriptor becomes a clock. */
#define FD_TO_CLOCKID(fd) ((~(clockid_t)(fd) << 3) | 3)

/* A clock of nanoseconds, read between two readings of the system's. */
int reference_read_clock(struct reference *reference, struct sample *sample)
{
	struct timespec time;

	for (int try = 0; try < TRIES; try++) {
		struct sample one;

		one.before_ns = clock_vdso_ns(CLOCK_MONOTONIC);
		if (clock_gettime(reference->clock, &time) != 0)
			return errno;
		one.after_ns = clock_vdso_ns(CLOCK_MONOTONIC);
		one.reference_ns = (int64_t)time.tv_sec * NSEC_PER_SEC + time.tv_nsec;
		if (try == 0 || one.after_ns - one.before_ns < sample->after_ns - sample->before_ns)
			*sample = one;
	}
	return 0;
}

/*
 * A clock of whole seconds. The moment at which one begins is not before the last reading of the
 * second before was begun, and not after the first reading of it had ended.
 */
int reference_read_edge(struct reference *reference, struct sample *sample)
{
	int64_t now = clock_vdso_ns(CLOCK_MONOTONIC), began, first;
	int error;

	if (reference->next_edge_ns) {
		while (reference->next_edge_ns - EDGE_EARLY_NS < now)
			reference->next_edge_ns += NSEC_PER_SEC;
		sleep_until_ns(reference->next_edge_ns - EDGE_EARLY_NS);
	}
	began = clock_vdso_ns(CLOCK_MONOTONIC);
	sample->before_ns = began;
	error = reference->seconds(reference, &first);
	while (!error) {
		int64_t before = clock_vdso_ns(CLOCK_MONOTONIC), seconds;

		error = reference->seconds(reference, &seconds);
		sample->after_ns = clock_vdso_ns(CLOCK_MONOTONIC);
		if (!error && seconds != first) {
			sample->reference_ns = seconds * NSEC_PER_SEC;
			reference->next_edge_ns = sample->after_ns + NSEC_PER_SEC;
			return 0;
		}
		if (sample->after_ns - began > EDGE_MOST_NS)
			return ETIME;
		sample->before_ns = before;
	}
	return error;
}

static int rtc_seconds(struct reference *reference, int64_t *seconds)
{
	struct rtc_time time;
	struct tm parts = { 0 };

	if (ioctl(reference->fd, RTC_RD_TIME, &time) != 0)
		return errno;
	parts.tm_sec = time.tm_sec;
	parts.tm_min = time.tm_min;
	parts.tm_hour = time.tm_hour;
	parts.tm_mday = time.tm_mday;
	parts.tm_mon = time.tm_mon;
	parts.tm_year = time.tm_year;
	*seconds = timegm(&parts);
	return 0;
}

/* "raw", or a device: /dev/rtcN by the kind of it, else a PTP clock. 0, or an errno. */
static int reference_open(struct reference *reference, const char *name)
{
	struct rtc_time time;

	memset(reference, 0, sizeof(*reference));
	reference->fd = -1;
	reference->read = reference_read_clock;
	reference->clock = CLOCK_MONOTONIC_RAW;
	if (strcmp(name, "raw") == 0)
		return 0;
	reference->fd = open(name, O_RDONLY | O_CLOEXEC);
	if (reference->fd < 0)
		return errno;
	if (ioctl(reference->fd, RTC_RD_TIME, &time) == 0) {
		reference->read = reference_read_edge;
		reference->seconds = rtc_seconds;
		return 0;
	}
	reference->clock = FD_TO_CLOCKID(reference->fd);
	return clock_gettime(reference->clock, &(struct timespec){ 0, 0 }) == 0 ? 0 : errno;
}

static enum status fail(const char *name, int error)
{
	fprintf(stderr, "cannot read %s as a clock: %s\n", name, strerror(error));
	return STATUS_REFERENCE;
}

/* One sample from one CPU, printed as a JSON object. */
static enum status take_sample(struct reference *reference, const char *name, int cpu)
{
	struct sample sample = { 0, 0, 0 };
	int error = cpu_pin(cpu);

	if (error) {
		fprintf(stderr, "cannot run on CPU %d: %s\n", cpu, strerror(error));
		return STATUS_CPU;
	}
	error = reference->read(reference, &sample);
	if (error)
		return fail(name, error);
	if (sched_getcpu() != cpu) {
		fprintf(stderr, "cannot run on CPU %d: it went offline\n", cpu);
		return STATUS_CPU;
	}
	printf("{\"cpu\":%d,\"before_ns\":%" PRId64 ",\"reference_ns\":%" PRId64
	       ",\"after_ns\":%" PRId64 "}\n",
	       cpu, sample.before_ns, sample.reference_ns, sample.after_ns);
	return STATUS_OK;
}

/* Take samples from all CPUs, in rounds that begin every INTERVAL_NS, for DURATION_NS. */
enum status drift_run(const struct cpu_list *cpus, const char *name, int64_t duration_ns,
		      int64_t interval_ns)
{
	struct reference reference;
	int64_t next = clock_vdso_ns(CLOCK_MONOTONIC);
	const int64_t end = next + duration_ns;
	enum status status = STATUS_OK;
	int error = reference_open(&reference, name);

	if (error)
		return fail(name, error);
	while (status == STATUS_OK && next <= end) {
		sleep_until_ns(next);
		for (size_t i = 0; i < cpus->nr && status == STATUS_OK; i++)
			status = take_sample(&reference, name, cpus->cpus[i]);
		next += interval_ns;
		/* A round may take longer: one of a clock of whole seconds takes one for each CPU. */
		if (next < clock_vdso_ns(CLOCK_MONOTONIC))
			next = clock_vdso_ns(CLOCK_MONOTONIC);
	}
	if (reference.fd >= 0)
		close(reference.fd);
	return status;
}
