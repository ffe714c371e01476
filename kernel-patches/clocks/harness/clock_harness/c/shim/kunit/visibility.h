/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_VISIBILITY_H
#define SHIM_VISIBILITY_H

#define EXPORT_SYMBOL_IF_KUNIT(symbol) extern __typeof__(symbol) symbol

#endif
