/* busy_alsa.c - preloaded: an ALSA whose devices are all in use. */
#include <errno.h>

int snd_pcm_open(void **pcm, const char *name, int stream, int mode);

int snd_pcm_open(void **pcm, const char *name, int stream, int mode) {
    (void)name;
    (void)stream;
    (void)mode;
    *pcm = 0;
    return -EBUSY;
}
