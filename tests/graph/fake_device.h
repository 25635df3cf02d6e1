/* fake_device.h - a device with memory of its own, for tests: the CPU's plain ops behind pointers the host cannot
 * follow.
 * Whoever treats device memory as the host's crashes at once; fresh memory is full of NaN; upload and download refuse a
 * pointer from the wrong side. So what exec does for a GPU is tested where there is none. */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H
#include "device/device.h"

/* Its id is "fake". */
const mx_device *fake_device(void);
/* For devices built upon it: whether a pointer is one of its own, and the host's pointer behind it. */
int fake_is_far(const void *p);
void *fake_near(const void *p);
#endif
