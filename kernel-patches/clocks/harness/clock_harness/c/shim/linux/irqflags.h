/* SPDX-License-Identifier: GPL-2.0-only */
/* A thread cannot keep the scheduler away, as little as a virtual CPU can its hypervisor. */
#ifndef SHIM_IRQFLAGS_H
#define SHIM_IRQFLAGS_H

#define raw_local_irq_save(flags) ((void)((flags) = 0))
#define raw_local_irq_restore(flags) ((void)(flags))
#define local_irq_save raw_local_irq_save
#define local_irq_restore raw_local_irq_restore

#endif
