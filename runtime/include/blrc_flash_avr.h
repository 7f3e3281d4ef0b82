/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Tables in the flash of an AVR; see blrc.h for what each macro means.
 *
 * They lie behind the code's own section, so that they do not push out of reach what programs keep in the first 64 KB
 * (PROGMEM). An address is a number, not a pointer: __memx pointers are miscompiled by avr-gcc 5.4 at -O1 and above. */
#ifndef BLRC_FLASH_AVR_H
#define BLRC_FLASH_AVR_H

#include <stdint.h>

#if defined(__AVR__)

#if !defined(__GNUC__) || defined(__clang__) || __GNUC__ < 5
#error "AVR: needs avr-gcc 5 or newer, which can be told to keep the parts of a table in order"
#elif !defined(__AVR_HAVE_LPMX__) || defined(__AVR_TINY__)
#error "AVR: this CPU cannot read tables from its flash into any register; take a larger one"
#endif

#define BLRC_FAR_TABLES

typedef __uint24 blrc_address;

#define BLRC_STORED __attribute__((section(".text.blrc_tables"), aligned(2), no_reorder, used))
#define BLRC_TABLE(type) blrc_address
#define BLRC_FAR(table)                                                                                         \
    (__extension__({                                                                                            \
        blrc_address blrc_at;                                                                                   \
        __asm__("ldi %A0, lo8(%1)\n\tldi %B0, hi8(%1)\n\tldi %C0, hh8(%1)" : "=d"(blrc_at) : "p"(&*(table))); \
        blrc_at;                                                                                                \
    }))
#define BLRC_SKIP(type, table, n) ((table) + (blrc_address)(n) * (blrc_address)sizeof(type))
#define BLRC_READ(type, table, n) ((type)blrc_read_flash(BLRC_SKIP(type, table, n), sizeof(type)))
#define BLRC_NEXT(type, table) \
    ((type)blrc_read_flash(((table) += (blrc_address)sizeof(type)) - (blrc_address)sizeof(type), sizeof(type)))
#define BLRC_EVEN(n) (((n) + 1) / 2 * 2)
#define BLRC_PART(whole, part) part
#define BLRC_MEMBER(type, tables, length, member) \
    BLRC_SKIP(type, BLRC_FAR(tables##_0), (uint32_t)(length) * BLRC_READ(uint16_t, BLRC_FAR(tables##_of), member))

/* Instructions that come before a read and after it, and the read itself. ELPM takes the address's upper byte from
 * RAMPZ, and where there is much RAM, so do instructions that read RAM, for which compilers take it to be 0. */
#if !defined(__AVR_HAVE_ELPMX__)
#define BLRC_BEFORE ""
#define BLRC_LPM "lpm"
#else
#define BLRC_BEFORE "out __RAMPZ__, %2\n\t"
#define BLRC_LPM "elpm"
#endif
#if defined(__AVR_HAVE_RAMPD__)
#define BLRC_AFTER "\n\tout __RAMPZ__, __zero_reg__"
#else
#define BLRC_AFTER ""
#endif

/* The number of 1, 2 or 4 bytes at an address of flash, least significant byte first. */
static inline __attribute__((always_inline)) uint32_t blrc_read_flash(blrc_address at, uint8_t bytes)
{
    const uint8_t high = (uint8_t)(at >> 16);
    uint16_t z = (uint16_t)at;
    uint32_t v;
    uint16_t v2;
    uint8_t v1;

    if (bytes == 1) {
        __asm__(BLRC_BEFORE BLRC_LPM " %0, Z" BLRC_AFTER : "=&r"(v1), "+z"(z) : "r"(high));
        return v1;
    }
    if (bytes == 2) {
        __asm__(BLRC_BEFORE BLRC_LPM " %A0, Z+\n\t" BLRC_LPM " %B0, Z" BLRC_AFTER : "=&r"(v2), "+z"(z) : "r"(high));
        return v2;
    }
    __asm__(BLRC_BEFORE BLRC_LPM " %A0, Z+\n\t" BLRC_LPM " %B0, Z+\n\t" BLRC_LPM " %C0, Z+\n\t" BLRC_LPM " %D0, Z"
            BLRC_AFTER : "=&r"(v), "+z"(z) : "r"(high));
    return v;
}

#endif

#endif
