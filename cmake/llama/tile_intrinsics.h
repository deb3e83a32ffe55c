// SPDX-License-Identifier: Apache-2.0
// Declares to GCC what its AMX tile intrinsics read; force-included into ggml's CPU sources.
//
// GCC's _tile_loadconfig names 8 bytes of the 64-byte configuration as its input and _tile_loadd
// names no memory at all, so the compiler may drop or move the stores that fill those buffers; the
// first tile load then faults or reads stale data. The same instructions are given here with their
// true operands. Tile numbers must be literals in the instruction text, hence macros. Does nothing
// without AMX.
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && defined(__AMX_TILE__)

#include <immintrin.h>

#undef _tile_loadconfig
#define _tile_loadconfig(config) \
  __asm__ volatile("ldtilecfg %0" ::"m"(*reinterpret_cast<const char(*)[64]>(config)))

#undef _tile_loadd
#define SKV_TILE_LOADD_TEXT(tile, base, stride)                                            \
  __asm__ volatile("{tileloadd (%0,%1,1), %%tmm" #tile "|tileloadd tmm" #tile ", [%0+%1]}" \
                   :                                                                       \
                   : "r"(static_cast<const void*>(base)), "r"(static_cast<long>(stride))   \
                   : "memory")
#define _tile_loadd(tile, base, stride) SKV_TILE_LOADD_TEXT(tile, base, stride)

#endif
