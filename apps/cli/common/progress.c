/* cli/common/progress.c - one line, redrawn in place. */
#include "common/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { MAX_COLUMNS = 200, REDRAW_MS = 100 };

/* One recording's share of the job. */
typedef struct share {
    double weight, fraction; /* fraction: how much of it is done */
    double done_s;
    double before, before_s; /* how much of both was done before this run */
    int ended;
} share;

static struct {
    int wanted, visible;
    const char *label;
    share *shares; /* [n] */
    int n;
    double start_ms;
    double last_draw_ms;
    double text_start_s; /* elapsed when the text stage began: reading the file is not part of the speed */
    double text_start_done_s;   /* of the recording, when the first window was done */
    int in_text;
} bar;

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int columns(void) {
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || size.ws_col == 0)
        return 80;
    return size.ws_col < MAX_COLUMNS ? size.ws_col : MAX_COLUMNS;
}

int progress_possible(void) {
    const char *terminal = getenv("TERM");
    return isatty(STDERR_FILENO) && terminal && strcmp(terminal, "dumb") && terminal[0];
}

/* Those not known weigh as much as the others do on average. */
static void set_weights(const double *weights) {
    double sum = 0;
    int n_known = 0;
    for (int i = 0; weights && i < bar.n; i++)
        if (weights[i] > 0) {
            sum += weights[i];
            n_known++;
        }
    for (int i = 0; i < bar.n; i++)
        bar.shares[i].weight = weights && weights[i] > 0 ? weights[i] : n_known ? sum / n_known : 1;
}

void progress_start(int n, const double *weights, int wanted) {
    flockfile(stderr);
    progress_stop();
    bar.shares = wanted ? calloc((size_t)n, sizeof(*bar.shares)) : NULL;
    bar.wanted = bar.shares != NULL;
    if (bar.wanted) {
        bar.n = n;
        bar.start_ms = now_ms();
        set_weights(weights);
    }
    funlockfile(stderr);
}

void progress_stop(void) {
    flockfile(stderr);
    progress_hide();
    free(bar.shares);
    memset(&bar, 0, sizeof(bar));
    funlockfile(stderr);
}

void progress_name(const char *name) {
    flockfile(stderr);
    if (bar.n == 1)
        bar.label = name;
    funlockfile(stderr);
}

void progress_end(int index) {
    flockfile(stderr);
    if (bar.wanted) {
        bar.shares[index].fraction = bar.shares[index].ended = 1;
        if (bar.n == 1)
            progress_hide();
    }
    funlockfile(stderr);
}

void progress_resumed(int index, double seconds) {
    flockfile(stderr);
    if (bar.wanted) {
        bar.shares[index].before = bar.shares[index].fraction;
        bar.shares[index].before_s = seconds;
    }
    funlockfile(stderr);
}

void progress_hide(void) {
    flockfile(stderr);
    if (bar.visible) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        bar.visible = 0;
    }
    funlockfile(stderr);
}

void progress_abandon(void) {
    if (bar.visible && write(STDERR_FILENO, "\r\033[K", 4) < 0)
        return; /* the terminal is gone, and so are we */
}

/* The last part of a path, cut to n characters (not bytes), control bytes replaced. */
static void short_label(const char *label, int n, char out[4 * MAX_COLUMNS + 1]) {
    const char *slash = strrchr(label, '/');
    const char *p = slash && slash[1] ? slash + 1 : label;
    char *q = out;
    while (*p && q < out + 4 * MAX_COLUMNS) {
        if ((*p & 0xC0) != 0x80 && n-- <= 0)
            break;
        *q++ = (unsigned char)*p < ' ' || *p == 127 ? '?' : *p;
        p++;
    }
    *q = 0;
}

static int characters(const char *text) {
    int n = 0;
    for (; *text; text++)
        n += (*text & 0xC0) != 0x80;
    return n;
}

/* 1:05, 2:00:07 */
static void print_time(char *out, size_t size, double seconds) {
    long s = seconds > 0 && seconds < 1e9 ? (long)(seconds + 0.5) : 0;
    if (s >= 3600)
        snprintf(out, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, size, "%ld:%02ld", s / 60, s % 60);
}

/* Puts "label [#####.....]  42% tail" on the screen, leaving out what does not fit: label first, then bar, then tail.
 */
static void draw(double fraction, const char *tail) {
    int room = columns() - 1; /* the last column makes some terminals wrap */
    char label[4 * MAX_COLUMNS + 1] = "", percent[8], line[MAX_COLUMNS + 1] = "";
    snprintf(percent, sizeof(percent), "%3d%%", (int)(fraction * 100));
    int left = room - 4 - (tail[0] ? 2 + (int)strlen(tail) : 0);
    if (left < 0) {
        tail = "";
        left = room - 4;
    }
    int width = left >= 60 ? 30 : left >= 13 ? (left < 33 ? left - 3 : 30) : 0;
    int beside = bar.n > 1 && bar.label ? left - 4 - characters(bar.label) : 0; /* a job's label is worth its place */
    if (beside >= 8 && beside < width)
        width = beside;
    if (width)
        left -= width + 3;
    if (left >= 12 && bar.label)
        short_label(bar.label, left - 1 < 32 ? left - 1 : 32, label);
    if (width) {
        int full = (int)(fraction * width);
        memset(line, '#', (size_t)full);
        memset(line + full, '.', (size_t)(width - full));
        line[width] = 0;
    }
    fprintf(stderr, "\r%s%s%s%s%s%s%s%s\033[K", label, label[0] ? " " : "", width ? "[" : "", line, width ? "] " : "",
            percent, tail[0] ? "  " : "", tail);
    fflush(stderr);
    bar.visible = 1;
}

void progress_note(const char *what) {
    flockfile(stderr);
    if (bar.wanted) {
        char text[4 * MAX_COLUMNS + 1];
        const char *label = bar.label ? bar.label : "";
        int room = columns() - 1;
        short_label(label, room > 40 ? 32 : 0, text);
        int left = room - characters(text) - 2;
        fprintf(stderr, "\r%s%s%.*s\033[K", text, text[0] ? ": " : "", left > 0 ? left : 0, what);
        fflush(stderr);
        bar.visible = 1;
    }
    funlockfile(stderr);
}

static void update_text(const mxw_progress *p) {
    if (!bar.in_text) {
        bar.in_text = 1;
        bar.text_start_s = p->elapsed_s;
        bar.text_start_done_s = p->done_s;
    }
    double spent = p->elapsed_s - bar.text_start_s;
    double speed = spent > 0 ? (p->done_s - bar.text_start_done_s) / spent : 0;
    char time[24], tail[64] = "";
    if (p->total_s <= 0) { /* live: no end in sight */
        print_time(time, sizeof(time), p->done_s);
        snprintf(tail, sizeof(tail), "%s done, %.1fx real time", time, speed);
        progress_note(tail);
        return;
    }
    double fraction = p->done_s / p->total_s;
    fraction = fraction < 0 ? 0 : fraction > 1 ? 1 : fraction;
    if (speed > 0) {
        print_time(time, sizeof(time), (p->total_s - p->done_s) / speed);
        snprintf(tail, sizeof(tail), "%.1fx real time, %s left", speed, time);
    }
    draw(fraction, tail);
}

static void update_audio(const mxw_progress *p) {
    char done[24], what[64];
    print_time(done, sizeof(done), p->done_s);
    snprintf(what, sizeof(what), "%s %s", strcmp(p->stage, "audio") ? "languages up to" : "listened to", done);
    if (p->total_s > 0 && p->done_s <= p->total_s)
        draw(p->done_s / p->total_s, what);
    else
        progress_note(what);
}

static void update_share(share *own, const mxw_progress *p) {
    if (strcmp(p->stage, "text") || own->ended)
        return;
    own->fraction = p->total_s > 0 && p->done_s < p->total_s ? p->done_s / p->total_s : 0;
    own->done_s = p->done_s;
}

/* All recordings: those ended, and those under way by what is done of them. */
static void update_job(void) {
    char label[64], time[24], tail[64] = "";
    double weight = 0, done = 0, done_s = 0, before = 0, before_s = 0, spent = (now_ms() - bar.start_ms) / 1e3;
    int n_ended = 0;
    for (int i = 0; i < bar.n; i++) {
        weight += bar.shares[i].weight;
        done += bar.shares[i].weight * bar.shares[i].fraction;
        done_s += bar.shares[i].done_s;
        before += bar.shares[i].weight * bar.shares[i].before;
        before_s += bar.shares[i].before_s;
        n_ended += bar.shares[i].ended;
    }
    double fraction = weight > 0 && done < weight ? done / weight : weight > 0;
    if (done > before && spent > 0) {
        print_time(time, sizeof(time), spent * (weight - done) / (done - before));
        snprintf(tail, sizeof(tail), "%.1fx real time, %s left", (done_s - before_s) / spent, time);
    }
    print_time(time, sizeof(time), done_s);
    snprintf(label, sizeof(label), "%d of %d files, %s of audio", n_ended, bar.n, time);
    bar.label = label;
    draw(fraction, tail);
    bar.label = NULL;
}

void progress_update(int index, const mxw_progress *progress) {
    flockfile(stderr);
    double now = now_ms();
    if (bar.wanted)
        update_share(&bar.shares[index], progress);
    if (bar.wanted && now - bar.last_draw_ms >= REDRAW_MS) {
        if (bar.n > 1)
            update_job();
        else if (strcmp(progress->stage, "text"))
            update_audio(progress);
        else
            update_text(progress);
        bar.last_draw_ms = now;
    }
    funlockfile(stderr);
}
