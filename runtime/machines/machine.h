/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* What a program under test needs of the machine it runs on. Each machine's file provides all of it. */
#ifndef BLRC_MACHINE_H
#define BLRC_MACHINE_H

#include <stdint.h>

/* Bytes from the host: as many as there are, at most `bytes`. */
uint32_t io_read(void *data, uint32_t bytes);

/* Bytes to the host. */
void io_write(const void *data, uint32_t bytes);

/* The end; 0 is success. The caller returns from main at once: not every machine can stop here. */
void io_exit(int status);

#endif
