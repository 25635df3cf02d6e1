/* base/base.h - umbrella header of base/: general utilities that know nothing of speech. */
#ifndef MX_BASE_H
#define MX_BASE_H
#include "base/status.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"
#include "base/file.h"
#include "base/log.h"
#include "base/clock.h"
#include "base/pool.h"
#include "base/module.h"
#endif
