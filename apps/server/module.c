/* server/module.c - the entry of the module. */
#include "core/serve.h"
#include "server.h"

static const server_table table = {serve_run};

__attribute__((visibility("default"))) const server_table *mx_module_open(uint32_t abi);
const server_table *mx_module_open(uint32_t abi) { return abi == SERVER_MODULE_ABI ? &table : NULL; }
