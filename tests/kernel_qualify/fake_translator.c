/*
 * Stands in for QEMU's translator around a plugin: executes the blocks that standard input names, "CPU
 * HEXADECIMAL-ADDRESS INSTRUCTIONS" a line, each translated once. Arguments are the plugin's.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define CPUS 4
#define BLOCKS 64
#define OPS 8

typedef void (*vcpu_cb)(unsigned int vcpu, void *data);
struct qemu_plugin_scoreboard { size_t size; char *bytes; };
typedef struct { struct qemu_plugin_scoreboard *score; size_t offset; } u64_entry;
struct op { char kind; u64_entry entry; uint64_t value; vcpu_cb cb; void *data; };
struct qemu_plugin_insn { uint64_t address; struct qemu_plugin_tb *tb; };
struct qemu_plugin_tb { uint64_t address; size_t n, n_ops; struct op ops[OPS]; struct qemu_plugin_insn insns[BLOCKS]; };
struct info { const char *name; int min, cur; bool system; int smp, max; };

int qemu_plugin_install(uint64_t id, const struct info *info, int argc, char **argv);
static void (*translated)(uint64_t id, struct qemu_plugin_tb *tb);

static void add(struct qemu_plugin_tb *tb, struct op op)
{
	if (tb->n_ops == OPS)
		abort();
	tb->ops[tb->n_ops++] = op;
}

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*cb)(uint64_t, struct qemu_plugin_tb *))
{
	(void)id;
	translated = cb;
}

void qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(struct qemu_plugin_tb *tb, int op, u64_entry entry, uint64_t imm)
{
	add(tb, (struct op){ op ? '=' : '+', entry, imm, NULL, NULL });
}

void qemu_plugin_register_vcpu_tb_exec_cond_cb(struct qemu_plugin_tb *tb, vcpu_cb cb, int flags, int cond,
					       u64_entry entry, uint64_t imm, void *data)
{
	(void)flags;
	if (cond != 3)
		abort();
	add(tb, (struct op){ '!', entry, imm, cb, data });
}

void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, vcpu_cb cb, int flags, void *data)
{
	(void)flags;
	add(insn->tb, (struct op){ 'x', { 0 }, 0, cb, data });
}

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb) { return tb->n; }
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb) { return tb->address; }
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn) { return insn->address; }
int qemu_plugin_num_vcpus(void) { return CPUS; }

struct qemu_plugin_insn *qemu_plugin_tb_get_insn(struct qemu_plugin_tb *tb, size_t i)
{
	tb->insns[i] = (struct qemu_plugin_insn){ tb->address + 4 * i, tb };
	return &tb->insns[i];
}

struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t size)
{
	struct qemu_plugin_scoreboard *score = malloc(sizeof(*score));

	*score = (struct qemu_plugin_scoreboard){ size, calloc(CPUS, size) };
	return score;
}

void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *score, unsigned int vcpu)
{
	return score->bytes + vcpu * score->size;
}

int main(int argc, char **argv)
{
	static struct qemu_plugin_tb blocks[BLOCKS];
	struct info info = { "ppc64", 2, 4, true, CPUS, CPUS };
	size_t n_blocks = 0, n;
	unsigned int vcpu;
	uint64_t address;

	if (qemu_plugin_install(0, &info, argc - 1, argv + 1))
		return 1;
	while (scanf("%u %" SCNx64 " %zu", &vcpu, &address, &n) == 3) {
		struct qemu_plugin_tb *tb = blocks;

		while (tb < blocks + n_blocks && tb->address != address)
			tb++;
		if (tb == blocks + n_blocks) {
			n_blocks++;
			tb->address = address;
			tb->n = n;
			translated(0, tb);
		}
		for (size_t i = 0; i < tb->n_ops; i++) {
			struct op *op = &tb->ops[i];
			uint64_t *entry = op->kind == 'x' ? NULL :
				(uint64_t *)((char *)qemu_plugin_scoreboard_find(op->entry.score, vcpu) + op->entry.offset);

			if (op->kind == '+')
				*entry += op->value;
			else if (op->kind == '=')
				*entry = op->value;
			else if (op->kind == 'x' || *entry != op->value)
				op->cb(vcpu, op->data);
		}
	}
	return 0;
}
