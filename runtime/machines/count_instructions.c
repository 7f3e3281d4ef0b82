/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* A TCG plugin of QEMU: counts the instructions that the emulated processor executes and writes the number to a file.
 *
 * Use: qemu-... -plugin count_instructions.so,out=FILE. QEMU's plugin header is not installed everywhere, so the few
 * declarations that are needed stand here; they are of plugin API version 1 (QEMU 4.2 and newer). */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                                  void (*call)(qemu_plugin_id_t id, struct qemu_plugin_tb *block));
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t index);
extern void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *instruction, int operation, void *to,
                                                       uint64_t value);
extern void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*call)(qemu_plugin_id_t id, void *data),
                                           void *data);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;
__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc,
                                                               char **argv);

enum { ADD_U64 = 0 };

static uint64_t counted;
static char path[4096];

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
    const size_t instructions = qemu_plugin_tb_n_insns(block);
    size_t i;

    (void)id;
    for (i = 0; i < instructions; ++i) {
        qemu_plugin_register_vcpu_insn_exec_inline(qemu_plugin_tb_get_insn(block, i), ADD_U64, &counted, 1);
    }
}

static void at_exit(qemu_plugin_id_t id, void *data)
{
    FILE *const file = fopen(path, "w");

    (void)id;
    (void)data;
    if (file != NULL) {
        fprintf(file, "%llu\n", (unsigned long long)counted);
        fclose(file);
    }
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
    (void)info;
    if (argc != 1 || strncmp(argv[0], "out=", 4) != 0 || strlen(argv[0]) - 4 >= sizeof path) {
        fprintf(stderr, "count_instructions: expected out=FILE\n");
        return -1;
    }
    strcpy(path, argv[0] + 4);
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, at_exit, NULL);
    return 0;
}
