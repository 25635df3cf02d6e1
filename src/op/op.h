/* op/op.h - the door of op/. */
#ifndef MX_OP_H
#define MX_OP_H
#include "op/select.h"
#endif
