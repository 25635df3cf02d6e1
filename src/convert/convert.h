/* convert/convert.h - public header of convert/: a checkpoint -> the files of another program.
 *
 * In: an open checkpoint, a format, a type for its matrices. Out: one file or a folder, whole or not at all. Memory is
 * that of one tensor. */
#ifndef MX_CONVERT_H
#define MX_CONVERT_H
#include "weights/weights.h"

/* As mxw_checkpoint_convert; options->format is set. */
mxw_status mx_convert(const mx_weights *w, const char *path, const mxw_convert_options *options);
const char *mx_convert_format(int index);                   /* "ggml"; NULL past the last */
const char *mx_convert_type(const char *format, int index); /* "auto", "f32", ...; NULL past the last */
#endif
