/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* WebAssembly: the embedder provides what the machine does. */
#include "machine.h"

int main(void);

__attribute__((import_module("host"), import_name("read"))) extern uint32_t machine_read(void *data, uint32_t bytes);
__attribute__((import_module("host"), import_name("write"))) extern void machine_write(const void *data, uint32_t bytes);
__attribute__((export_name("start"))) int machine_start(void);

uint32_t io_read(void *data, uint32_t bytes)
{
    return machine_read(data, bytes);
}

void io_write(const void *data, uint32_t bytes)
{
    machine_write(data, bytes);
}

static int machine_status;

void io_exit(int status)
{
    machine_status = status;
}

/* The status; main returns after io_exit. */
int machine_start(void)
{
    main();
    return machine_status;
}
