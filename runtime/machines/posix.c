/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* A program of an operating system: standard input and output. */
#include <stdio.h>
#include <stdlib.h>

#include "machine.h"

uint32_t io_read(void *data, uint32_t bytes)
{
    return (uint32_t)fread(data, 1, bytes, stdin);
}

void io_write(const void *data, uint32_t bytes)
{
    if (fwrite(data, 1, bytes, stdout) != bytes) {
        exit(3);
    }
}

void io_exit(int status)
{
    exit(fflush(stdout) == 0 ? status : 3);
}
