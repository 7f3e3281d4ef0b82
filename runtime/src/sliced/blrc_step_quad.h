/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* A step of four words, in vectors where the CPU has them: for blrc_planes.h. */
#ifndef BLRC_STEP_QUAD_H
#define BLRC_STEP_QUAD_H

#define BLRC_ALL_QUADS
#include "blrc_quad.h"

#if !BLRC_VECTOR && !defined(__GNUC__)
#error "exported for the Cortex-M55: needs a compiler with vectors of GNU C; export it without --cpu"
#endif

typedef blrc_quad blrc_step;

#define BLRC_STEP 4
#define BLRC_GET blrc_quad_get
#define BLRC_PUT blrc_quad_put
#define BLRC_ALL blrc_quad_of
#define BLRC_FULL blrc_quad_add3
#define BLRC_ANY(v, planes) ((planes) != 0)

#endif
