/* cli/demo/page.c - the page of `demo` in the terminal: a panel for each engine, side by side where there is room.
 *
 * Invariants: a draw only reads the demo; nothing is written outside of the window, however small; colour only where
 * the terminal has it and NO_COLOR is not set. */
#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "demo/demo.h"

enum { LEAST_WIDTH = 26, LEAST_HEIGHT = 7, HEAD = 3, FOOT = 2 };
enum { COLOR_OF_RUNNING = 1, COLOR_OF_DONE, COLOR_OF_FAILED, COLOR_OF_DIM };

static int colors, utf8;
static SCREEN *screen;

int demo_page_open(void) {
    setlocale(LC_CTYPE, "");
    utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
    screen = newterm(NULL, stdout, stdin);
    if (!screen)
        return 0;
    set_term(screen);
    cbreak();
    noecho();
    curs_set(0);
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    colors = has_colors() && !getenv("NO_COLOR");
    if (colors) {
        start_color();
        int background = use_default_colors() == OK ? -1 : COLOR_BLACK;
        init_pair(COLOR_OF_RUNNING, COLOR_CYAN, (short)background);
        init_pair(COLOR_OF_DONE, COLOR_GREEN, (short)background);
        init_pair(COLOR_OF_FAILED, COLOR_RED, (short)background);
        init_pair(COLOR_OF_DIM, COLOR_BLUE, (short)background);
    }
    return 1;
}

void demo_page_close(void) {
    if (!screen)
        return;
    endwin();
    delscreen(screen);
    screen = NULL;
}

int demo_page_key(void) {
    int key = getch();
    return key == 'q' || key == 'Q' || key == 27 ? 'q' : key == 3 ? 3 : 0;
}

/* ---- places --------------------------------------------------------------------------------------------- */

typedef struct area {
    int y, x, height, width;
} area;

static void paint(int color, int on) {
    if (!colors)
        return;
    if (on)
        attron(COLOR_PAIR(color));
    else
        attroff(COLOR_PAIR(color));
}

/* Text of at most `width` columns; a character that would stick out is left away. */
static void put(int y, int x, int width, const char *text) {
    wchar_t wide[512];
    size_t n = mbstowcs(wide, text, 511);
    int used = 0;
    if (n == (size_t)-1 || y >= LINES || width <= 0)
        return;
    wide[n < 511 ? n : 511] = 0;
    for (size_t i = 0; wide[i]; i++) {
        int columns = wcwidth(wide[i]);
        if (columns < 0) {
            wide[i] = L' ';
            columns = 1;
        }
        if (used + columns > width) {
            wide[i] = 0;
            break;
        }
        used += columns;
    }
    mvaddwstr(y, x, wide);
}

__attribute__((format(printf, 4, 5))) static void say(int y, int x, int width, const char *format, ...) {
    char text[512];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof(text), format, values);
    va_end(values);
    put(y, x, width, text);
}

/* A bar of `width` columns, so much of it filled. */
static void bar(int y, int x, int width, double share) {
    int filled = (int)lround(fmin(fmax(share, 0), 1) * width);
    for (int i = 0; i < width && y < LINES; i++)
        put(y, x + i, 1, utf8 ? (i < filled ? "█" : "░") : (i < filled ? "#" : "."));
}

static void frame(const area *b, int color) {
    paint(color, 1);
    mvhline(b->y, b->x, ACS_HLINE, b->width);
    mvhline(b->y + b->height - 1, b->x, ACS_HLINE, b->width);
    mvvline(b->y, b->x, ACS_VLINE, b->height);
    mvvline(b->y, b->x + b->width - 1, ACS_VLINE, b->height);
    mvaddch(b->y, b->x, ACS_ULCORNER);
    mvaddch(b->y, b->x + b->width - 1, ACS_URCORNER);
    mvaddch(b->y + b->height - 1, b->x, ACS_LLCORNER);
    mvaddch(b->y + b->height - 1, b->x + b->width - 1, ACS_LRCORNER);
    paint(color, 0);
}

/* ---- words ---------------------------------------------------------------------------------------------- */

/* The next line of the text: where it ends, at a space if there is one that is not too far back. */
static const wchar_t *line_end(const wchar_t *from, int width) {
    const wchar_t *space = NULL, *at = from;
    int used = 0;
    for (; *at; at++) {
        int columns = wcwidth(*at) < 0 ? 1 : wcwidth(*at);
        if (used + columns > width)
            return space && space > from ? space : at > from ? at : at + 1;
        used += columns;
        if (*at == L' ')
            space = at;
    }
    return at;
}

/* The last lines of the text, as many as fit. */
static void words(const area *b, const char *text) {
    if (!text || b->height <= 0 || b->width <= 0)
        return;
    size_t n = mbstowcs(NULL, text, 0);
    wchar_t *wide = n == (size_t)-1 ? NULL : calloc(n + 1, sizeof(*wide));
    const wchar_t **starts = calloc((size_t)b->height, sizeof(*starts));
    if (wide && starts) {
        int count = 0;
        mbstowcs(wide, text, n + 1);
        for (const wchar_t *at = wide; *at;) {
            while (*at == L' ')
                at++;
            if (!*at)
                break;
            starts[count++ % b->height] = at;
            at = line_end(at, b->width);
        }
        int shown = count < b->height ? count : b->height;
        for (int i = 0; i < shown; i++) {
            const wchar_t *from = starts[(count - shown + i) % b->height];
            mvaddnwstr(b->y + i, b->x, from, (int)(line_end(from, b->width) - from));
        }
    }
    free(starts);
    free(wide);
}

/* ---- panels --------------------------------------------------------------------------------------------- */

static int color_of(demo_state state) {
    switch (state) {
    case DEMO_DONE: return COLOR_OF_DONE;
    case DEMO_FAILED: return COLOR_OF_FAILED;
    case DEMO_LOADING: case DEMO_RUNNING: return COLOR_OF_RUNNING;
    default: return COLOR_OF_DIM;
    }
}

static void draw_stages(const demo_panel *p, int y, int x, int width, int rows) {
    double most = 1;
    int length = width - 18;
    for (int i = 0; i < DEMO_STAGES; i++)
        most = fmax(most, p->stage_ms[i]);
    for (int i = 0; i < DEMO_STAGES && i < rows; i++) {
        say(y + i, x, width, "%-7s%8.0f ms", demo_stage_names[i], p->stage_ms[i]);
        if (length > 0)
            bar(y + i, x + 19, length - 1, p->stage_ms[i] / most);
    }
}

static void draw_figures(const demo *d, const demo_panel *p, int y, int x, int width) {
    double share = p->state == DEMO_DONE ? 1 : d->audio_s > 0 ? p->done_s / d->audio_s : 0;
    double speed_up = demo_speed_up(d, p);
    bar(y, x, width - 6, share);
    say(y, x + width - 5, 5, "%3.0f %%", 100 * share);
    say(y + 1, x, width, "%.1f s, %.1f × real time", p->elapsed_s, demo_rate(d, p));
    if (p->gpu_bytes)
        say(y + 2, x, width, "%.0f MiB, GPU %.0f MiB", (double)p->peak_kib / 1024, (double)p->gpu_bytes / 1048576);
    else
        say(y + 2, x, width, "%.0f MiB", (double)p->peak_kib / 1024);
    if (speed_up > 0 && p->engine != MXW_ENGINE_CPU)
        say(y + 2, x + width - 11 > x ? x + width - 11 : x, 11, "%5.2f × cpu", speed_up);
}

static void draw_panel(const demo *d, const demo_panel *p, const area *b) {
    int x = b->x + 2, width = b->width - 4, y = b->y + 1, end = b->y + b->height - 1, color = color_of(p->state);
    frame(b, color);
    say(b->y, b->x + 2, width, " %s ", engine_names[p->engine]);
    const char *state = demo_state_names[p->state];
    int at = b->x + b->width - 4 - (int)strlen(state);
    paint(color, 1);
    if (at > b->x + 8)
        say(b->y, at, (int)strlen(state) + 2, " %s ", state);
    paint(color, 0);
    if (p->state == DEMO_FAILED || p->state == DEMO_SKIPPED) {
        words(&(area){y, x, end - y, width}, p->message);
        return;
    }
    if (p->state == DEMO_WAITING || p->state == DEMO_LOADING) {
        put(y, x, width, p->state == DEMO_WAITING ? "waits for its turn" : "opens the model");
        return;
    }
    if (!strcmp(p->device, "cpu"))
        say(y, x, width, "cpu, %d threads", p->threads);
    else
        put(y, x, width, p->device);
    draw_figures(d, p, y + 1, x, width);
    int rows = end - (y + 4);
    int stages = rows >= DEMO_STAGES + 3 ? DEMO_STAGES : 0;
    draw_stages(p, y + 4, x, width, stages);
    y += 4 + stages;
    if (p->state == DEMO_DONE && end - y > 1) {
        paint(p->match == DEMO_MATCH_OTHER ? COLOR_OF_FAILED : COLOR_OF_DONE, 1);
        put(y, x, width, demo_match_words(d, p));
        paint(p->match == DEMO_MATCH_OTHER ? COLOR_OF_FAILED : COLOR_OF_DONE, 0);
        y++;
    }
    words(&(area){y, x, end - y, width}, p->text);
}

/* Side by side if each is wide enough, else one above the other, else only the one that is at work. */
static void draw_panels(const demo *d) {
    int height = LINES - HEAD - FOOT, n = d->n_panels, shown = 0;
    if (COLS / n >= LEAST_WIDTH) {
        for (int i = 0; i < n; i++)
            draw_panel(d, &d->panels[i], &(area){HEAD, COLS * i / n, height, COLS * (i + 1) / n - COLS * i / n});
        return;
    }
    if (height / n >= LEAST_HEIGHT) {
        for (int i = 0; i < n; i++) {
            int y = height * i / n;
            draw_panel(d, &d->panels[i], &(area){HEAD + y, 0, height * (i + 1) / n - y, COLS});
        }
        return;
    }
    for (int i = 0; i < n; i++)
        if (d->panels[i].state != DEMO_WAITING)
            shown = i;
    draw_panel(d, &d->panels[shown], &(area){HEAD, 0, height, COLS});
}

void demo_page_draw(const demo *d) {
    int fastest = demo_fastest(d);
    erase();
    if (COLS < LEAST_WIDTH || LINES < HEAD + FOOT + LEAST_HEIGHT - 2) {
        put(0, 0, COLS, "the window is too small");
        refresh();
        return;
    }
    attron(A_BOLD);
    say(0, 0, COLS, "max-whisper %s   %s%s%s", mxw_version(), d->options->model, "   ", d->path);
    attroff(A_BOLD);
    put(1, 0, COLS, d->hardware[0]);
    put(2, 0, COLS, d->hardware[1]);
    draw_panels(d);
    if (fastest >= 0)
        say(LINES - 2, 0, COLS, "fastest so far: %s, %.2f s for %.1f s of sound",
            engine_names[d->panels[fastest].engine], d->panels[fastest].total_s, d->audio_s);
    put(LINES - 1, 0, COLS, "q: leave");
    refresh();
}
