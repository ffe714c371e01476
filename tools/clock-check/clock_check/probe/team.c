// SPDX-License-Identifier: GPL-2.0-only
/* Threads that are on their CPUs before any of them begins. */
#include "probe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void *worker_main(void *argument)
{
	struct worker *worker = argument;
	struct team *team = worker->team;
	bool go;

	worker->pin_error = cpu_pin(worker->cpu);
	pthread_mutex_lock(&team->lock);
	team->ready++;
	pthread_cond_broadcast(&team->changed);
	while (team->gate == TEAM_WAIT)
		pthread_cond_wait(&team->changed, &team->lock);
	go = team->gate == TEAM_GO;
	pthread_mutex_unlock(&team->lock);
	if (go)
		worker->work(worker);
	return NULL;
}

/* Let the first STARTED workers go, or not, once all of them are where they belong. */
static enum status open_gate(struct team *team, unsigned int started, bool complete)
{
	const struct worker *stray = NULL;

	pthread_mutex_lock(&team->lock);
	while (team->ready < started)
		pthread_cond_wait(&team->changed, &team->lock);
	for (unsigned int i = 0; i < started && !stray; i++)
		if (team->workers[i].pin_error)
			stray = &team->workers[i];
	team->gate = complete && !stray ? TEAM_GO : TEAM_CANCEL;
	pthread_cond_broadcast(&team->changed);
	pthread_mutex_unlock(&team->lock);
	if (!stray)
		return complete ? STATUS_OK : STATUS_FAILED;
	fprintf(stderr, "cannot run on CPU %d: %s\n", stray->cpu, strerror(stray->pin_error));
	return STATUS_CPU;
}

/*
 * Start NR threads on the CPUs in turn. With fewer CPUs than threads, several share one. SKEW_NS goes
 * to every second thread. On any status but STATUS_OK there is nothing to join or free.
 */
enum status team_start(struct team *team, unsigned int nr, const struct cpu_list *cpus,
		       work_fn *work, void *shared, int64_t skew_ns)
{
	unsigned int started = 0;
	enum status status;
	int error = 0;

	memset(team, 0, sizeof(*team));
	pthread_mutex_init(&team->lock, NULL);
	pthread_cond_init(&team->changed, NULL);
	team->workers = aligned_alloc(CACHE_LINE, nr * sizeof(*team->workers));
	if (!team->workers) {
		fprintf(stderr, "no memory for %u threads\n", nr);
		return STATUS_FAILED;
	}
	memset(team->workers, 0, nr * sizeof(*team->workers));
	for (; started < nr && !error; started += !error) {
		struct worker *worker = &team->workers[started];

		worker->shared = shared;
		worker->work = work;
		worker->team = team;
		worker->index = started;
		worker->cpu = cpus->cpus[started % cpus->nr];
		worker->skew_ns = started % 2 ? skew_ns : 0;
		error = pthread_create(&worker->thread, NULL, worker_main, worker);
	}
	team->nr = started;
	if (error)
		fprintf(stderr, "cannot start thread %u of %u: %s\n", started + 1, nr, strerror(error));
	status = open_gate(team, started, !error);
	if (status != STATUS_OK) {
		team_join(team);
		team_free(team);
	}
	return status;
}

void team_join(struct team *team)
{
	for (unsigned int i = 0; i < team->nr; i++)
		pthread_join(team->workers[i].thread, NULL);
}

void team_free(struct team *team)
{
	free(team->workers);
	pthread_cond_destroy(&team->changed);
	pthread_mutex_destroy(&team->lock);
}

/* Print the value of a JSON key: what each thread did. */
void team_print(const struct team *team)
{
	putchar('[');
	for (unsigned int i = 0; i < team->nr; i++) {
		const struct worker *worker = &team->workers[i];

		printf("%s{\"cpu\":%d,\"calls\":%" PRIu64 ",\"elapsed_ns\":%" PRId64 ",\"cpu_ns\":%" PRId64
		       ",\"moved\":%s}",
		       i ? "," : "", worker->cpu, worker->calls, worker->elapsed_ns, worker->cpu_ns,
		       worker->moved ? "true" : "false");
	}
	putchar(']');
}
