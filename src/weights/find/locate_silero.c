/* weights/find/locate_silero.c - the file that a name or path of Silero VAD's weights means. */
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "weights/format/cursor.h"
#include "weights/store.h"

/* Of a folder, in order of preference: the .jit has both rates. */
static const char *const files[] = {MX_SILERO_FILE, "silero_vad_16k.safetensors"};

/* E_NOT_FOUND, without an error line, if the folder has neither. */
static mxw_status look_in(const char *folder, const char *below, mx_str *path) {
    for (size_t i = 0; i < MX_COUNT(files); i++) {
        mx_str_clear(path);
        mx_str_print(path, "%s%s%s/%s", folder, below ? "/" : "", below ? below : "", files[i]);
        if (mx_str_status(path) < 0)
            return mx_str_status(path);
        if (mx_file_exists(mx_str_get(path)) && !mx_file_is_dir(mx_str_get(path)))
            return MXW_OK;
    }
    return MXW_E_NOT_FOUND;
}

mxw_status mx_silero_locate(const char *name_or_path, const char *model_dir, mx_str *path) {
    const char *name = name_or_path ? name_or_path : MXW_VAD_MODEL;
    if (!*name)
        return mx_fail(MXW_E_ARGUMENT, "the name of the speech detection's weights is empty");
    int known = strcmp(name, MXW_VAD_MODEL) == 0;
    mxw_status status = MXW_E_NOT_FOUND;
    /* The name is looked up first, so that a file of that name in the working folder does not matter. */
    if (known || (!strchr(name, '/') && !mx_file_exists(name)))
        status = look_in(mx_model_dir(model_dir), name, path);
    if (status != MXW_E_NOT_FOUND)
        return status;
    if (mx_file_is_dir(name)) {
        status = look_in(name, NULL, path);
        return status == MXW_E_NOT_FOUND
                   ? mx_fail(status, "%s: neither %s nor %s in this folder", name, files[0], files[1])
                   : status;
    }
    if (mx_file_exists(name)) {
        mx_str_clear(path);
        mx_str_text(path, name);
        return mx_str_status(path);
    }
    if (known)
        return mx_fail(MXW_E_NOT_FOUND, "the speech detection's weights are not there (%s/" MXW_VAD_MODEL "/%s); "
                       "`max-whisper model fetch " MXW_VAD_MODEL "` gets them", mx_model_dir(model_dir), files[0]);
    return mx_fail(MXW_E_NOT_FOUND, "%s: no such file or folder with Silero VAD's weights; their name in the model "
                   "folder is '" MXW_VAD_MODEL "'", mx_show(name, strlen(name)).text);
}
