/* cli/info/devices.h - a device as lines or as JSON, for the subcommands that tell of devices. */
#ifndef CLI_INFO_DEVICES_H
#define CLI_INFO_DEVICES_H

#include "common/json_writer.h"
#include "max_whisper.h"

void print_device(const mxw_device_info *d);
void write_device(json_writer *json, const mxw_device_info *d);

#endif
