/* cli/live/page.c - the last line, redrawn in place, and the lines above it. stderr's lock guards it all, as it does
 * the log's lines, which come from any thread. */
#include "live/page.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "common/stdout.h"
#include "live/clip.h"
#include "transcribe/output/screen.h"

enum { REDRAW_MS = 100, METER_CELLS = 10, METER_DB = 60, NARROW = 44, WIDE = 72 };

typedef struct text {
    char *bytes;
    size_t n, room;
} text;

static struct {
    pthread_mutex_t lock; /* of open alone */
    pthread_cond_t closing;
    pthread_t thread;
    int open;
    int visible, real_time;
    int utf8, colors;
    sound_source *from;
    text pending;     /* final words that do not fill a line yet */
    text partial;
    const char *note;
    double start;     /* of the utterance */
    int continued;    /* the utterance has a line above */
    double delay_s;   /* of the last words; negative: none yet */
} page = {.lock = PTHREAD_MUTEX_INITIALIZER, .closing = PTHREAD_COND_INITIALIZER};

static int columns(void) {
    struct winsize size;
    int n = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col ? 80 : size.ws_col;
    return n > 1 ? n - 1 : 1; /* the last column makes some terminals wrap */
}

static int shows_utf8(void) {
    const char *names[] = {getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG")};
    for (int i = 0; i < 3; i++)
        if (names[i] && names[i][0])
            return strcasestr(names[i], "utf-8") || strcasestr(names[i], "utf8");
    return 0;
}

int page_possible(void) {
    const char *terminal = getenv("TERM");
    return isatty(STDOUT_FILENO) && terminal && terminal[0] && strcmp(terminal, "dumb");
}

/* Appended on one line: control characters become spaces, and no line begins with one. */
static void append(text *t, const char *more) {
    size_t n = strlen(more);
    if (t->n + n + 1 > t->room) {
        size_t size = 2 * (t->n + n + 1);
        char *grown = realloc(t->bytes, size);
        if (!grown)
            return; /* a word less on the screen; files and the result have it */
        t->bytes = grown;
        t->room = size;
    }
    for (const char *p = more; *p; p++) {
        char c = (unsigned char)*p < ' ' || *p == 127 ? ' ' : *p;
        if (c != ' ' || (t->n && t->bytes[t->n - 1] != ' '))
            t->bytes[t->n++] = c;
    }
    t->bytes[t->n] = 0;
}

static void drop(text *t, size_t n) {
    while (n < t->n && t->bytes[n] == ' ')
        n++;
    memmove(t->bytes, t->bytes + n, t->n - n + 1);
    t->n -= n;
}

/* ---- drawing; with the lock ----------------------------------------------------------------------------- */

static void hide(void) {
    if (page.visible)
        out_text("\r\033[K");
    page.visible = 0;
}

/* "[██████▌   ]": the level on a scale of 60 dB. */
static void print_meter(char *out, size_t size, double level) {
    double db = level > 1e-6 ? 20 * log10(level) + METER_DB : 0;
    int halves = db > 0 ? (int)(2 * METER_CELLS * db / METER_DB + 0.5) : 0;
    size_t n = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < METER_CELLS; i++) {
        int filled = halves - 2 * i;
        const char *cell = filled >= 2 ? (page.utf8 ? "█" : "#") : filled == 1 ? (page.utf8 ? "▌" : "-") : " ";
        n += (size_t)snprintf(out + n, size - n, "%s", cell);
    }
    snprintf(out + n, size - n, "]");
}

static void print_status(char *out, size_t size, int width) {
    source_view view;
    char meter[64] = "", delay[32] = "";
    source_look(page.from, &view);
    if (width >= NARROW)
        print_meter(meter, sizeof(meter), view.level);
    if (page.real_time && page.delay_s >= 0)
        snprintf(delay, sizeof(delay), " %s%.1f s", width >= WIDE ? "delay " : "", page.delay_s);
    long seconds = (long)(view.received_s - view.waiting_s);
    snprintf(out, size, "%s%s%ld:%02ld%s  ", meter, meter[0] ? " " : "", seconds / 60, seconds % 60, delay);
}

static void write_part(const char *bytes, size_t n, int grey) {
    if (!n)
        return;
    out_text(grey && page.colors ? "\033[90m" : "");
    out_write(NULL, bytes, n);
    out_text(grey && page.colors ? "\033[0m" : "");
}

/* The end of the final words that are pending and of the partial, as one text. */
static void write_tail(int room) {
    int space = page.pending.n && page.partial.n && page.pending.bytes[page.pending.n - 1] != ' ';
    int width = clip_width(page.pending.bytes, page.pending.n) + clip_width(page.partial.bytes, page.partial.n) + space;
    size_t from = 0, final_n = page.pending.n, partial_from = 0;
    if (width > room) {
        int left = room - 1 - clip_width(page.partial.bytes, page.partial.n) - space;
        out_text(page.utf8 ? "…" : "<");
        from = left > 0 ? clip_tail(page.pending.bytes, final_n, left) : final_n;
        if (left <= 0)
            partial_from = clip_tail(page.partial.bytes, page.partial.n, room - 1);
        space = space && left > 0;
    }
    write_part(page.pending.bytes + from, final_n - from, 0);
    write_part(" ", (size_t)space, 0);
    write_part(page.partial.bytes + partial_from, page.partial.n - partial_from, 1);
}

static void draw(void) {
    char status[128];
    int width = columns();
    print_status(status, sizeof(status), width);
    int room = width - clip_width(status, strlen(status));
    out_text("\r");
    if (room < 4) { /* a very narrow window: the text alone */
        status[0] = 0;
        room = width;
    }
    out_text(status);
    if (page.pending.n || page.partial.n)
        write_tail(room);
    else if (page.note)
        write_part(page.note, clip_head(page.note, strlen(page.note), room), 1);
    out_text("\033[K");
    page.visible = 1;
    out_flush();
}

/* The time of its utterance, or as many blanks. */
static void print_line(size_t n) {
    char time[40], prefix[48];
    screen_timestamp(time, sizeof(time), page.start);
    int width = snprintf(prefix, sizeof(prefix), "[%s] ", time);
    if (page.continued)
        snprintf(prefix, sizeof(prefix), "%*s", width, "");
    hide();
    out_text(prefix);
    out_write(NULL, page.pending.bytes, n);
    out_text("\n");
    drop(&page.pending, n);
    page.continued = 1;
}

/* Lines that are full, or all that is pending. */
static void scroll(int all) {
    char time[40];
    screen_timestamp(time, sizeof(time), page.start);
    int room = columns() - (int)strlen(time) - 3;
    room = room < 8 ? 8 : room;
    while (page.pending.n) {
        size_t n = clip_line(page.pending.bytes, page.pending.n, room);
        if (n == page.pending.n && !all)
            break;
        print_line(n);
    }
}

/* ---- the page ------------------------------------------------------------------------------------------- */

/* 0: the page is to be closed. */
static int wait_to_redraw(void) {
    struct timespec when;
    clock_gettime(CLOCK_REALTIME, &when);
    when.tv_nsec += REDRAW_MS * 1000000L;
    when.tv_sec += when.tv_nsec / 1000000000L;
    when.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&page.lock);
    if (page.open)
        pthread_cond_timedwait(&page.closing, &page.lock, &when);
    int open = page.open;
    pthread_mutex_unlock(&page.lock);
    return open;
}

static void *redraw(void *user) {
    (void)user;
    do {
        flockfile(stderr);
        draw();
        funlockfile(stderr);
    } while (wait_to_redraw());
    return NULL;
}

static void hide_for_log(void) {
    hide();
    out_flush();
}

int page_open(sound_source *from, int real_time) {
    page.from = from;
    page.real_time = real_time;
    page.utf8 = shows_utf8();
    page.colors = screen_has_colors();
    page.delay_s = -1;
    page.open = 1;
    if (pthread_create(&page.thread, NULL, redraw, NULL)) {
        page.open = 0;
        return 0;
    }
    log_before(hide_for_log);
    return 1;
}

void page_close(void) {
    if (!page.open)
        return;
    pthread_mutex_lock(&page.lock);
    page.open = 0;
    pthread_cond_signal(&page.closing);
    pthread_mutex_unlock(&page.lock);
    pthread_join(page.thread, NULL);
    log_before(NULL);
    scroll(1);
    hide();
    out_flush();
    free(page.pending.bytes);
    free(page.partial.bytes);
    page.pending = page.partial = (text){NULL, 0, 0};
}

static void note_delay(double end) {
    source_view view;
    source_look(page.from, &view);
    page.delay_s = view.received_s > end ? view.received_s - end : 0;
}

void page_final(const char *words, double start, double end) {
    flockfile(stderr);
    if (!page.pending.n && !page.continued)
        page.start = start;
    append(&page.pending, words);
    page.partial.n = 0;
    page.note = NULL;
    note_delay(end);
    scroll(0);
    draw();
    funlockfile(stderr);
}

void page_partial(const char *words, double end) {
    flockfile(stderr);
    page.partial.n = 0;
    append(&page.partial, words);
    page.note = NULL;
    if (page.partial.n)
        note_delay(end);
    draw();
    funlockfile(stderr);
}

void page_break(void) {
    flockfile(stderr);
    page.partial.n = 0;
    scroll(1);
    page.continued = 0;
    draw();
    funlockfile(stderr);
}

void page_note(const char *note) {
    flockfile(stderr);
    page.note = note;
    draw();
    funlockfile(stderr);
}
