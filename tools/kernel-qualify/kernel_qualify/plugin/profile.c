// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A plugin of QEMU's translator that counts the guest's instructions by kernel function, from one mark to
 * another, and those of each CPU's turn in a stop_machine() rendezvous.
 *
 * Arguments: symbols=FILE, one "HEXADECIMAL-ADDRESS ROLE NAME" a line, by address, each name once, the last one
 * for the end of the kernel's text; and out=FILE, to which each span between two marks is added as one line of
 * JSON. Roles are
 *   -   no more than a name
 *   b   entering this function begins a span
 *   e   entering this one ends it
 *   t   entering this one begins a CPU's turn
 *   w   and coming (back) to this one, in which a CPU waits in a rendezvous, ends it
 *   s   a CPU spins in this one for another CPU
 *   l   any function calls this one: a call from w counts as (waiting), and one from s as (spinning)
 *
 * A block of translated code counts as a whole, and for the function that it begins in. Counters are per CPU,
 * so no count is lost; those of other CPUs are read while these run.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The part of QEMU's plugin interface, version 4, that is used here: distributions ship the interface, and no
 * header of it.
 */
#define EXPORT __attribute__((visibility("default")))
typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_scoreboard;
typedef struct {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
} qemu_plugin_u64;
typedef struct {
	const char *target_name;
	struct { int min, cur; } version;
	bool system_emulation;
	struct { int smp_vcpus, max_vcpus; } system;
} qemu_info_t;
enum { CB_NO_REGS };
enum { INLINE_ADD_U64, INLINE_STORE_U64 };
enum { COND_NEVER, COND_ALWAYS, COND_EQ, COND_NE };
typedef void (*tb_trans_cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*vcpu_udata_cb)(unsigned int vcpu, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, tb_trans_cb cb);
void qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(struct qemu_plugin_tb *tb, int op, qemu_plugin_u64 entry,
						       uint64_t imm);
void qemu_plugin_register_vcpu_tb_exec_cond_cb(struct qemu_plugin_tb *tb, vcpu_udata_cb cb, int flags, int cond,
					       qemu_plugin_u64 entry, uint64_t imm, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, vcpu_udata_cb cb, int flags, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t idx);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t element_size);
void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *score, unsigned int vcpu);
int qemu_plugin_num_vcpus(void);

EXPORT int qemu_plugin_version = 4;

/* A function of ELF's second ABI for 64-bit PowerPC has an entry for callers in the same object after these. */
#define LOCAL_ENTRY 8
/* A translated block is within a page of 64 KiB. */
#define LENGTH_BITS 16

/* The first symbols stand for no function. */
enum { ELSEWHERE, WAITING, SPINNING, FIRST };

struct symbol {
	uint64_t address;
	char role;
	char *name;
};

struct counters {
	uint64_t all;
	uint64_t waits;		/* WAITING or SPINNING: where the CPU comes from, but for functions that any calls */
	uint64_t in_turn;
	uint64_t turn_from;
	uint64_t turns;
	uint64_t turns_sum;
	uint64_t turns_max;
	uint64_t by_symbol[];	/* then as many as the turn found, and as many of all turns */
};

static struct symbol *symbols;
static size_t n_symbols;
static struct qemu_plugin_scoreboard *board;
static FILE *out;
static uint64_t *before;	/* of the span: by CPU, then by symbol */
static const char *begun_by;	/* none: outside of spans */

static struct counters *counters(unsigned int vcpu)
{
	return qemu_plugin_scoreboard_find(board, vcpu);
}

static uint64_t *found(struct counters *now)
{
	return now->by_symbol + n_symbols;
}

static uint64_t *of_turns(struct counters *now)
{
	return now->by_symbol + 2 * n_symbols;
}

static qemu_plugin_u64 counter(size_t offset)
{
	return (qemu_plugin_u64){ board, offset };
}

/* Code that runs with translation off is at the same offset from 0. */
static size_t find(uint64_t address)
{
	size_t low = FIRST, high = n_symbols - 1;
	uint64_t base = symbols[FIRST].address & ~0xffffffffffULL;

	if (address < (symbols[high].address & 0xffffffffffULL))
		address |= base;
	if (address < symbols[low].address || address >= symbols[high].address)
		return ELSEWHERE;
	while (high - low > 1) {
		size_t middle = (low + high) / 2;

		if (symbols[middle].address <= address)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static void begin(unsigned int vcpu, void *data)
{
	int cpus = qemu_plugin_num_vcpus();

	(void)vcpu;
	free(before);
	before = calloc(cpus * (n_symbols + 1), sizeof(*before));
	for (int cpu = 0; cpu < cpus; cpu++) {
		struct counters *now = counters(cpu);
		uint64_t *then = before + cpu * (n_symbols + 1);

		now->turns = now->turns_sum = now->turns_max = 0;
		memset(of_turns(now), 0, n_symbols * sizeof(uint64_t));
		then[n_symbols] = now->all;
		memcpy(then, now->by_symbol, n_symbols * sizeof(*then));
	}
	begun_by = ((struct symbol *)data)->name;
}

static void print_functions(const char *key, int cpus, bool turns)
{
	const char *comma = "";

	fprintf(out, "\"%s\": {", key);
	for (size_t i = 0; i < n_symbols; i++) {
		uint64_t sum = 0;

		for (int cpu = 0; cpu < cpus; cpu++)
			sum += turns ? of_turns(counters(cpu))[i] :
				counters(cpu)->by_symbol[i] - before[cpu * (n_symbols + 1) + i];
		if (!sum)
			continue;
		fprintf(out, "%s\"%s\": %" PRIu64, comma, symbols[i].name, sum);
		comma = ", ";
	}
	fputc('}', out);
}

static void end(unsigned int vcpu, void *data)
{
	int cpus = qemu_plugin_num_vcpus();

	(void)vcpu;
	(void)data;
	if (!begun_by)
		return;
	fprintf(out, "{\"begun_by\": \"%s\", \"cpus\": [", begun_by);
	begun_by = NULL;
	for (int cpu = 0; cpu < cpus; cpu++) {
		struct counters *now = counters(cpu);

		fprintf(out, "%s[%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 "]", cpu ? ", " : "",
			now->all - before[cpu * (n_symbols + 1) + n_symbols], now->turns, now->turns_sum, now->turns_max);
	}
	fputs("], ", out);
	print_functions("functions", cpus, false);
	fputs(", ", out);
	print_functions("turn_functions", cpus, true);
	fputs("}\n", out);
	fflush(out);
}

static void turn(unsigned int vcpu, void *data)
{
	struct counters *now = counters(vcpu);

	(void)data;
	now->in_turn = 1;
	now->turn_from = now->all;
	memcpy(found(now), now->by_symbol, n_symbols * sizeof(uint64_t));
}

static void waits(unsigned int vcpu, void *data)
{
	struct counters *now = counters(vcpu);
	uint64_t took = now->all - now->turn_from;

	(void)data;
	now->in_turn = 0;
	now->turns++;
	now->turns_sum += took;
	if (took > now->turns_max)
		now->turns_max = took;
	for (size_t i = 0; i < n_symbols; i++)
		of_turns(now)[i] += now->by_symbol[i] - found(now)[i];
}

/* A block of a function that any calls, which the CPU got to from one that waits: DATA is its function and length. */
static void called_to_wait(unsigned int vcpu, void *data)
{
	struct counters *now = counters(vcpu);
	uintptr_t block = (uintptr_t)data;

	now->by_symbol[block >> LENGTH_BITS] -= block % (1 << LENGTH_BITS);
	now->by_symbol[now->waits] += block % (1 << LENGTH_BITS);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb), at = find(qemu_plugin_tb_vaddr(tb));
	struct symbol *symbol = &symbols[at];

	(void)id;
	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, INLINE_ADD_U64, counter(offsetof(struct counters, all)), n);
	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, INLINE_ADD_U64,
		counter(offsetof(struct counters, by_symbol) + at * sizeof(uint64_t)), n);
	if (symbol->role == 'l')
		qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, called_to_wait, CB_NO_REGS, COND_NE,
			counter(offsetof(struct counters, waits)), 0, (void *)(uintptr_t)(at << LENGTH_BITS | n));
	else
		qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, INLINE_STORE_U64,
			counter(offsetof(struct counters, waits)),
			symbol->role == 'w' ? WAITING : symbol->role == 's' ? SPINNING : 0);
	if (symbol->role == 'w')
		qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, waits, CB_NO_REGS, COND_NE,
			counter(offsetof(struct counters, in_turn)), 0, NULL);
	if (symbol->role != 'b' && symbol->role != 'e' && symbol->role != 't')
		return;
	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		if (qemu_plugin_insn_vaddr(insn) == symbol->address + LOCAL_ENTRY)
			qemu_plugin_register_vcpu_insn_exec_cb(insn,
				symbol->role == 'b' ? begin : symbol->role == 'e' ? end : turn, CB_NO_REGS, symbol);
	}
}

static int read_symbols(const char *path)
{
	FILE *file = fopen(path, "r");
	char name[512], role;
	uint64_t address;
	size_t room = 1 << 12;

	symbols = malloc(room * sizeof(*symbols));
	symbols[n_symbols++] = (struct symbol){ 0, '-', "elsewhere" };
	symbols[n_symbols++] = (struct symbol){ 0, '-', "(waiting)" };
	symbols[n_symbols++] = (struct symbol){ 0, '-', "(spinning)" };
	while (file && fscanf(file, "%" SCNx64 " %c %511s", &address, &role, name) == 3) {
		if (n_symbols == room)
			symbols = realloc(symbols, (room *= 2) * sizeof(*symbols));
		symbols[n_symbols++] = (struct symbol){ address, role, strdup(name) };
	}
	if (!file || n_symbols < FIRST + 2) {
		fprintf(stderr, "profile: no symbols in %s\n", path);
		return -1;
	}
	fclose(file);
	return 0;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	if (!info->system_emulation)
		return -1;
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "symbols=", 8) && read_symbols(argv[i] + 8))
			return -1;
		if (!strncmp(argv[i], "out=", 4))
			out = fopen(argv[i] + 4, "a");
	}
	if (!n_symbols || !out) {
		fputs("profile: give symbols=FILE and out=FILE\n", stderr);
		return -1;
	}
	board = qemu_plugin_scoreboard_new(sizeof(struct counters) + 3 * n_symbols * sizeof(uint64_t));
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
