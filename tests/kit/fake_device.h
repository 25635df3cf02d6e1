/* fake_device.h - a device with memory of its own, for tests: the CPU's plain ops behind pointers the host cannot
 * follow.
 * Code that uses device memory as the host's crashes at once; fresh memory is full of NaN; upload and download refuse a
 * pointer from the wrong side. So what exec does for a GPU is tested where there is none. */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H
#include "device/device.h"

/* Its id is "fake". */
const mx_device *fake_device(void);
/* It captures calls as a GPU does: later changes to a call have no effect, results arrive with wait(). How many graphs
 * were captured, how often one was launched, how many are open. */
typedef struct fake_counts {
    int captured, launched, open;
} fake_counts;
fake_counts fake_captures(void);
void fake_refuse_capture(int refuse);
/* A linear reads the result of another one, or of a GELU, in layout OPERAND, which no other op can read and which takes
 * more bytes; attention reads the parts of a linear's result in layout QKV, all of them or none. How many results were
 * written so. */
int fake_output_layouts(void);
/* For devices built upon it: whether a pointer is one of its own, and the host's pointer behind it. */
int fake_is_far(const void *p);
void *fake_near(const void *p);
#endif
