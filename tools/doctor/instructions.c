/* What the CPU can, and what oneDNN makes of it. */
#include "tools/doctor/topics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOPIC "cpu"
#define FLAGS_BYTES 8192

static const struct {
    const char *name, *flags[4];        /* that all of are needed */
} sets[] = {
    [INSTRUCTIONS_BASE] = { "SSE", { NULL } },
    [INSTRUCTIONS_AVX2] = { "AVX2", { "avx2", "fma", NULL } },
    [INSTRUCTIONS_AVX512] = { "AVX-512", { "avx512f", "avx512bw", "avx512dq", "avx512vl" } },
    [INSTRUCTIONS_BF16] = { "AVX512-BF16", { "avx512_vnni", "avx512_bf16", NULL } },
    [INSTRUCTIONS_AMX] = { "AMX", { "amx_tile", "amx_int8", "amx_bf16", NULL } },
};

static bool has_flag(const char *flags, const char *flag)
{
    const size_t bytes = strlen(flag);
    for (const char *at = flags; (at = strstr(at, flag)) != NULL; at += bytes)
        if ((at == flags || at[-1] == ' ') && (at[bytes] == ' ' || at[bytes] == '\0'))
            return true;
    return false;
}

static bool has_set(const char *flags, enum instructions set)
{
    for (size_t i = 0; i < sizeof(sets[set].flags) / sizeof(sets[set].flags[0]) && sets[set].flags[i] != NULL; i++)
        if (!has_flag(flags, sets[set].flags[i]))
            return false;
    return true;
}

/* The newest that is there with all before it. */
static enum instructions newest_of(const char *flags)
{
    enum instructions newest = INSTRUCTIONS_BASE;
    while (newest < INSTRUCTIONS_AMX && has_set(flags, newest + 1))
        newest++;
    return newest;
}

/* The variable that keeps oneDNN from newer instructions; NULL: none. Its makers gave it two names. */
static const char *limiting_variable(void)
{
    static const char *const names[] = { "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (getenv(names[i]) != NULL && *getenv(names[i]) != '\0')
            return names[i];
    return NULL;
}

void topic_instructions(struct findings *findings, const struct machine *machine, enum instructions taken)
{
    char model[128], flags[FLAGS_BYTES];
    if (!machine_row(machine, "proc/cpuinfo", "flags", flags, sizeof(flags)))
        return;
    const enum instructions there = newest_of(flags);
    if (!machine_row(machine, "proc/cpuinfo", "model name", model, sizeof(model)))
        snprintf(model, sizeof(model), "of unknown name");
    findings_add(findings, TOPIC, "processor", "%s, with %s%s", model, sets[there].name,
                 has_flag(flags, "hypervisor") ? ", in a virtual machine" : "");
    findings_add(findings, TOPIC, "oneDNN", "computes with %s", sets[taken].name);
    if (taken >= there)
        return;
    const char *const cause = limiting_variable();
    const bool is_for_bf16 = taken >= INSTRUCTIONS_AVX512;
    if (cause != NULL)
        findings_judge(findings, JUDGEMENT_WARN, "%s in the environment keeps it from %s%s: unset it", cause,
                       sets[there].name, is_for_bf16 ? ", which bf16 is faster with" : "");
    else
        findings_judge(findings, JUDGEMENT_NOTE, "it does not take the CPU's %s%s: the library is too old for it, or "
                       "the system does not allow it", sets[there].name,
                       is_for_bf16 ? ", which only devices.precision = bf16 is faster with" : "");
}
