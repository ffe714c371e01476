/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_COMPILER_H
#define SHIM_COMPILER_H

#include <linux/types.h>

#endif
