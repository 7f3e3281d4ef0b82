/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* A step of one word: for blrc_planes.h. */
#ifndef BLRC_STEP_WORD_H
#define BLRC_STEP_WORD_H

#include "blrc_carry.h"

typedef uint32_t blrc_step;

#define BLRC_STEP 1
#define BLRC_GET(from) (*(from))
#define BLRC_PUT(to, v) (*(to) = (v))
#define BLRC_ALL(v) (v)
#define BLRC_FULL blrc_add3
#define BLRC_ANY(v, planes) ((void)(planes), (v) != 0)

#endif
