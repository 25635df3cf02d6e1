/* cli/common/peak_rss.h - what this process takes. */
#ifndef CLI_COMMON_PEAK_RSS_H
#define CLI_COMMON_PEAK_RSS_H

#include <stdint.h>

/* The most that it had in memory at once, in KiB; -1 where the system does not tell. */
int64_t memory_peak_kib(void);
/* Restarts the count; does nothing where the system cannot. */
void memory_forget_peak(void);

#endif
