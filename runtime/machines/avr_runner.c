/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Runs the firmware of an AVR in simavr (libsimavr), for runtime/machines/avr.c, and counts its instructions.
 *
 *     avr_runner MCU FIRMWARE.elf IN OUT [COUNT]
 *
 * IN: bytes that the firmware reads; OUT: bytes that it writes; COUNT: gets the instructions it took, in decimal.
 * Ends with the firmware's status, or with 100 and a message: no such MCU or file, or the firmware crashed or hangs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <simavr/sim_avr.h>
#include <simavr/sim_elf.h>
#include <simavr/sim_io.h>

/* Addresses in the data space. They are the same on all AVRs that blrc's tests use (ATmega328P, 1284P, 2560). */
#define GPIOR0 0x3E
#define GPIOR1 0x4A
#define GPIOR2 0x4B

#define FAILED 100

static FILE *in, *out;
static int status = -1;

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "avr_runner: %s: %s\n", what, why);
    return FAILED;
}

static uint8_t next_byte(avr_t *avr, avr_io_addr_t address, void *unused)
{
    const int byte = getc(in);

    (void)avr, (void)address, (void)unused;
    return byte == EOF ? 0 : (uint8_t)byte;
}

static uint8_t is_byte_there(avr_t *avr, avr_io_addr_t address, void *unused)
{
    const int byte = getc(in);

    (void)avr, (void)address, (void)unused;
    ungetc(byte, in); /* does nothing at the end */
    return byte != EOF;
}

static void put_byte(avr_t *avr, avr_io_addr_t address, uint8_t byte, void *unused)
{
    (void)avr, (void)address, (void)unused;
    putc(byte, out);
}

static void put_status(avr_t *avr, avr_io_addr_t address, uint8_t byte, void *unused)
{
    (void)avr, (void)address, (void)unused;
    status = byte;
}

static void log_errors(avr_t *avr, const int level, const char *format, va_list arguments)
{
    (void)avr;
    if (level <= LOG_ERROR) {
        vfprintf(stderr, format, arguments);
    }
}

int main(int argc, char **argv)
{
    elf_firmware_t firmware;
    unsigned long long count = 0;
    avr_t *avr;
    FILE *counted;

    if (argc < 5 || argc > 6) {
        return fail("usage", "avr_runner MCU FIRMWARE.elf IN OUT [COUNT]");
    }
    avr_global_logger_set(log_errors);
    memset(&firmware, 0, sizeof firmware);
    avr = avr_make_mcu_by_name(argv[1]);
    if (avr == 0) {
        return fail(argv[1], "simavr knows no such microcontroller");
    }
    if (elf_read_firmware(argv[2], &firmware) != 0 || firmware.flashsize == 0) {
        return fail(argv[2], "cannot be read as the ELF file of a firmware");
    }
    avr_init(avr);
    if (firmware.flashsize > avr->flashend + 1) {
        return fail(argv[2], "larger than the flash");
    }
    avr_load_firmware(avr, &firmware);
    avr_register_io_read(avr, GPIOR0, next_byte, 0);
    avr_register_io_read(avr, GPIOR1, is_byte_there, 0);
    avr_register_io_write(avr, GPIOR0, put_byte, 0);
    avr_register_io_write(avr, GPIOR2, put_status, 0);
    in = fopen(argv[3], "rb");
    if (in == 0) {
        return fail(argv[3], strerror(errno));
    }
    out = fopen(argv[4], "wb");
    if (out == 0) {
        return fail(argv[4], strerror(errno));
    }
    while (avr->state == cpu_Running) {
        const avr_flashaddr_t before = avr->pc;

        avr_run(avr); /* one instruction: run_cycle_limit is 1 */
        ++count;
        if (avr->pc == before && !avr->sreg[S_I] && avr->state == cpu_Running) {
            return fail(argv[2], "jumps to itself with interrupts off: main returned, or there is no such instruction");
        }
    }
    if (fclose(out) != 0) {
        return fail(argv[4], strerror(errno));
    }
    if (avr->state != cpu_Done || status < 0) {
        return fail(argv[2], avr->state == cpu_Crashed ? "crashed" : "sleeps without a status");
    }
    if (argc == 6) {
        counted = fopen(argv[5], "w");
        if (counted == 0 || fprintf(counted, "%llu\n", count) < 0 || fclose(counted) != 0) {
            return fail(argv[5], strerror(errno));
        }
    }
    return status;
}
