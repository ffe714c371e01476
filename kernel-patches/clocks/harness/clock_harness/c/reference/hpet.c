// SPDX-License-Identifier: GPL-2.0-only
/*
 * The combined read of the HPET as in Linux 4.9 to 6.12: union hpet_lock and read_hpet() of
 * arch/x86/kernel/hpet.c, with their comments left out.
 */
#include <linux/cache.h>
#include <linux/irqflags.h>
#include <linux/preempt.h>
#include <linux/processor.h>

#include "../algorithms.h"
#include "../device.h"

typedef struct {
	u32 val;
} arch_spinlock_t;

#define __ARCH_SPIN_LOCK_UNLOCKED { 0 }

static __always_inline bool arch_spin_is_locked(arch_spinlock_t *lock)
{
	return READ_ONCE(lock->val);
}

static __always_inline bool arch_spin_trylock(arch_spinlock_t *lock)
{
	u32 unlocked = READ_ONCE(lock->val);

	return !unlocked && __atomic_compare_exchange_n(&lock->val, &unlocked, 1, false,
							__ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static __always_inline void arch_spin_unlock(arch_spinlock_t *lock)
{
	__atomic_store_n(&lock->val, 0, __ATOMIC_RELEASE);
}

#define hpet_readl(reg) device_read()

union hpet_lock {
	struct {
		arch_spinlock_t lock;
		u32 value;
	};
	u64 lockval;
};

static union hpet_lock hpet __cacheline_aligned = {
	{ .lock = __ARCH_SPIN_LOCK_UNLOCKED, },
};

u64 read_hpet(void)
{
	unsigned long flags;
	union hpet_lock old, new;

	if (in_nmi())
		return (u64)hpet_readl(HPET_COUNTER);

	old.lockval = READ_ONCE(hpet.lockval);

	if (arch_spin_is_locked(&old.lock))
		goto contended;

	local_irq_save(flags);
	if (arch_spin_trylock(&hpet.lock)) {
		new.value = hpet_readl(HPET_COUNTER);
		WRITE_ONCE(hpet.value, new.value);
		arch_spin_unlock(&hpet.lock);
		local_irq_restore(flags);
		return (u64)new.value;
	}
	local_irq_restore(flags);

contended:
	do {
		cpu_relax();
		new.lockval = READ_ONCE(hpet.lockval);
	} while ((new.value == old.value) && arch_spin_is_locked(&new.lock));

	return (u64)new.value;
}
