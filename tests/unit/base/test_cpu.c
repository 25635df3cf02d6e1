/* test_cpu.c - base/cpu.h: MXW_CPU caps the instruction sets and never adds one that the CPU lacks; nor does asking for
 * one. */
#include "base/cpu.h"

#include <stdlib.h>

#include "base/base.h"
#include "kit/check.h"

#if defined(__x86_64__)
static const char *const sets[] = {"ref", "avx2", "avxvnni", "avx512", "avx512vnni", "amx"};
#elif defined(__aarch64__)
static const char *const sets[] = {"ref", "neon"};
#else
static const char *const sets[] = {"ref"};
#endif

int main(void) {
    unsetenv("MXW_CPU");
    CHECK(mx_cpu_has("ref"));
    CHECK(!mx_cpu_has("") && !mx_cpu_has("avx") && !mx_cpu_has("REF"));
    for (size_t i = 0; i < MX_COUNT(sets); i++) {
        CHECK_EQ_INT(mx_cpu_may(sets[i]), mx_cpu_has(sets[i]));
        CHECK(mx_cpu_enable(sets[i]) == mx_cpu_has(sets[i]) || strcmp(sets[i], "amx") == 0);   /* may be refused */
        CHECK(mx_cpu_has(sets[i]) || !mx_cpu_enable(sets[i]));
    }
    CHECK(!mx_cpu_enable("") && !mx_cpu_enable("avx"));
    for (size_t cap = 0; cap < MX_COUNT(sets); cap++) {
        setenv("MXW_CPU", sets[cap], 1);
        CHECK_EQ_INT(mx_cpu_check(), MXW_OK);
        for (size_t i = 0; i < MX_COUNT(sets); i++)
            CHECK_EQ_INT(mx_cpu_may(sets[i]), i <= cap && mx_cpu_has(sets[i]));
    }
    setenv("MXW_CPU", "", 1);
    CHECK_EQ_INT(mx_cpu_check(), MXW_OK);
    setenv("MXW_CPU", "avx_vnni", 1);   /* unknown names change nothing, and are refused where a device is opened */
    CHECK_EQ_INT(mx_cpu_check(), MXW_E_ARGUMENT);
    CHECK(strstr(mx_error(), "MXW_CPU: 'avx_vnni': expected ref") == mx_error());
    CHECK(strstr(mx_error(), sets[MX_COUNT(sets) - 1]));
    for (size_t i = 0; i < MX_COUNT(sets); i++)
        CHECK_EQ_INT(mx_cpu_may(sets[i]), mx_cpu_has(sets[i]));
    return check_done();
}
