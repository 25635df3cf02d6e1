/* audio_command.h - our samples of a file beside those of the ffmpeg command that openai-whisper runs. */
#ifndef AUDIO_COMMAND_H
#define AUDIO_COMMAND_H
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audio/audio.h"

/* All samples as 16 bits; whatever was read before a failure. */
static mxw_status read_source(const mx_audio_source *source, int16_t **samples, size_t *n) {
    float block[4096];
    size_t got = 1;
    mx_audio *audio;
    *samples = NULL;
    *n = 0;
    mxw_status status = mx_audio_open(source, &audio);
    if (status < 0)
        return status;
    while (status >= 0 && got > 0) {
        status = mx_audio_read(audio, block, 4096, &got);
        *samples = realloc(*samples, (*n + got + 1) * sizeof(int16_t));
        for (size_t i = 0; status >= 0 && i < got; i++)
            (*samples)[(*n)++] = (int16_t)(block[i] * 32768.0f);
    }
    mx_audio_close(audio);
    return status;
}

static mxw_status read_samples(const char *path, int16_t **samples, size_t *n) {
    return read_source(&(mx_audio_source){.path = path}, samples, n);
}

/* The command's standard output; piped: it reads the file from a pipe. */
static void command_samples(const mx_audio_source *source, int piped, int16_t **samples, size_t *n) {
    char command[1200], map[40] = "", pan[40] = "";
    size_t got, bytes = 0;
    if (source->track)
        snprintf(map, sizeof(map), "-map 0:a:%d", source->track - 1);
    if (source->channel)
        snprintf(pan, sizeof(pan), "-af 'pan=mono|c0=c%d'", source->channel - 1);
    snprintf(command, sizeof(command),
             "%s'%s' %s %s %s -f s16le -ac 1 -acodec pcm_s16le -ar 16000 - 2>/dev/null",
             piped ? "cat " : "ffmpeg -v quiet -nostdin -i ", source->path, piped ? "| ffmpeg -v quiet -i -" : "", map,
             pan);
    FILE *out = popen(command, "r");
    *samples = malloc(1 << 16);
    while (out && (got = fread((char *)*samples + bytes, 1, 1 << 16, out)) > 0) {
        bytes += got;
        *samples = realloc(*samples, bytes + (1 << 16));
    }
    if (out)
        pclose(out);
    *n = bytes / 2;
}

static int compare_samples(const int16_t *ours, size_t n, const int16_t *theirs, size_t want, char *why, size_t room) {
    if (n != want || (n == 0 && snprintf(why, room, "no samples at all") > 0)) {
        if (n != want)
            snprintf(why, room, "%zu samples, the command gives %zu (%s)", n, want, mxw_last_error());
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        if (ours[i] != theirs[i]) {
            snprintf(why, room, "sample %zu is %d, the command's %d", i, ours[i], theirs[i]);
            return 0;
        }
    return 1;
}

static inline int same_choice(const mx_audio_source *source, char *why, size_t room) {
    int16_t *ours, *theirs;
    size_t n, want;
    read_source(source, &ours, &n);
    command_samples(source, 0, &theirs, &want);
    int same = compare_samples(ours, n, theirs, want, why, room);
    free(ours);
    free(theirs);
    return same;
}

static inline int same_as_command(const char *path, char *why, size_t room) {
    return same_choice(&(mx_audio_source){.path = path}, why, room);
}

/* "-" must give what the command gets from a pipe. It gets nothing from an MP4 whose index comes last; we then give
 * what the file gives. */
static inline int same_through_standard_input(const char *path, int piped, char *why, size_t room) {
    int16_t *ours, *theirs;
    size_t n, want;
    int saved = dup(STDIN_FILENO), file = open(path, O_RDONLY), ends[2] = {-1, -1};
    pid_t child = -1;
    if (piped && pipe(ends) == 0 && (child = fork()) == 0) {
        dup2(file, STDIN_FILENO);
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp("cat", "cat", (char *)NULL);
        _exit(127);
    }
    dup2(piped ? ends[0] : file, STDIN_FILENO);
    close(file);
    if (piped) {
        close(ends[0]);
        close(ends[1]);
    }
    read_samples("-", &ours, &n);
    dup2(saved, STDIN_FILENO);
    close(saved);
    if (child > 0)
        waitpid(child, NULL, 0);
    command_samples(&(mx_audio_source){.path = path}, piped && !strstr(path, ".m4a") && !strstr(path, ".mp4"), &theirs,
                    &want);
    int same = compare_samples(ours, n, theirs, want, why, room);
    free(ours);
    free(theirs);
    return same;
}
#endif
