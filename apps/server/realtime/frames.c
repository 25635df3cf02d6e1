/* realtime/frames.c - WebSocket frames of a socket, through wslay, without buffers of its own: a message is collected
 * in one that has a bound, however it was cut. Pings are answered here. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "realtime/socket.h"

enum { BUDGET = 256 << 10, KEEP = 64 << 10, QUEUE_BYTES = 64 << 10, QUEUE_MESSAGES = 256, TRY_AGAIN_LATER = 1013 };

/* ---- wslay's callbacks ------------------------------------------------------------------------------------------- */

static ssize_t receive(wslay_event_context_ptr frames, uint8_t *bytes, size_t n, int flags, void *user) {
    rt_socket *s = user;
    if (s->extra_at < s->n_extra) {
        n = n < s->n_extra - s->extra_at ? n : s->n_extra - s->extra_at;
        memcpy(bytes, s->extra + s->extra_at, n);
        s->extra_at += n;
        s->n_received += (int64_t)n;
        return (ssize_t)n;
    }
    n = n < s->budget ? n : s->budget;
    ssize_t got = n ? recv(s->fd, bytes, n, 0) : -1;
    if (got > 0) {
        s->budget -= (size_t)got;
        s->n_received += got;
        s->heard_ns = server_now_ns();
        s->pinged = 0;
        return got;
    }
    int waits = got < 0 && (n == 0 || errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    wslay_event_set_error(frames, waits ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static ssize_t transmit(wslay_event_context_ptr frames, const uint8_t *bytes, size_t n, int flags, void *user) {
    rt_socket *s = user;
    ssize_t sent = send(s->fd, bytes, n, MSG_NOSIGNAL | (flags & WSLAY_MSG_MORE ? MSG_MORE : 0));
    if (sent >= 0) {
        s->unsent_ns = 0;
        return sent;
    }
    int waits = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    wslay_event_set_error(frames, waits ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static void on_frame(wslay_event_context_ptr frames, const struct wslay_event_on_frame_recv_start_arg *arg,
                     void *user) {
    ((rt_socket *)user)->frame_opcode = arg->opcode;
}

/* The message that is coming has so much room now, which counts as what waits. */
static void set_room(rt_socket *s, size_t room) {
    hub_waiting(s->hub, (int64_t)room - (int64_t)s->room);
    s->room = room;
}

/* What came of a message that nobody wants any more. */
static void drop_message(rt_socket *s) {
    free(s->message);
    s->message = NULL;
    set_room(s, 0);
}

/* Room for n bytes more of the message that is coming. 0: there is none, and the socket is closed. Small messages have
 * room whatever the others do: a client that sends sound as it is spoken is not closed for their sake. */
static int reserve(rt_socket *s, size_t n) {
    size_t had = s->message ? s->message->n : 0, room = s->room ? s->room : 4096;
    while (room < had + n)
        room *= 2;
    if (room > SOCKET_MESSAGE_MOST)
        room = SOCKET_MESSAGE_MOST;
    if (room == s->room)
        return 1;
    if (room > KEEP && hub_waiting(s->hub, 0) + (int64_t)(room - s->room) > HUB_INBOX_MOST) {
        frames_close(s, TRY_AGAIN_LATER, "too much of all clients waits");
        return 0;
    }
    rt_note *grown = realloc(s->message, sizeof(*grown) + room + 1);
    if (!grown) {
        frames_close(s, WSLAY_CODE_INTERNAL_SERVER_ERROR, "out of memory");
        return 0;
    }
    grown->n = had;
    s->message = grown;
    set_room(s, room);
    return 1;
}

static void on_chunk(wslay_event_context_ptr frames, const struct wslay_event_on_frame_recv_chunk_arg *arg,
                     void *user) {
    rt_socket *s = user;
    if (wslay_is_ctrl_frame(s->frame_opcode) || s->close_queued)
        return;
    if (!s->message_ns)
        s->message_ns = server_now_ns();
    if ((s->message ? s->message->n : 0) + arg->data_length > SOCKET_MESSAGE_MOST) {
        frames_close(s, WSLAY_CODE_MESSAGE_TOO_BIG, "a message may have 21 MiB");
        return;
    }
    if (!reserve(s, arg->data_length))
        return;
    memcpy(s->message->text + s->message->n, arg->data, arg->data_length);
    s->message->n += arg->data_length;
}

/* A whole message: to the worker. Text and binary frames alike: the official clients read both. */
static void on_message(wslay_event_context_ptr frames, const struct wslay_event_on_msg_recv_arg *arg, void *user) {
    rt_socket *s = user;
    if (arg->opcode == WSLAY_CONNECTION_CLOSE)
        s->close_queued = 1;   /* wslay answers it */
    if (wslay_is_ctrl_frame(arg->opcode) || s->close_queued)
        return;
    s->message_ns = 0;
    s->used_ns = server_now_ns();
    if (!reserve(s, 0))
        return;
    rt_note *note = s->message;
    note->next = NULL;
    note->text[note->n] = 0;
    s->message = NULL;
    if (note->n > KEEP) {   /* room is doubled: what is not used goes back */
        rt_note *fitted = realloc(note, sizeof(*note) + note->n + 1);
        note = fitted ? fitted : note;
    }
    set_room(s, note->n);   /* what waits for the worker, from here on in the inbox */
    s->room = 0;
    pthread_mutex_lock(&s->lock);
    notes_add(&s->inbox, note);
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
}

/* ---- the socket -------------------------------------------------------------------------------------------------- */

int frames_open(rt_socket *s) {
    static const struct wslay_event_callbacks callbacks = {.recv_callback = receive,
                                                           .send_callback = transmit,
                                                           .on_frame_recv_start_callback = on_frame,
                                                           .on_frame_recv_chunk_callback = on_chunk,
                                                           .on_msg_recv_callback = on_message};
    if (wslay_event_context_server_init(&s->frames, &callbacks, s) != 0)
        return 0;
    wslay_event_config_set_no_buffering(s->frames, 1);
    wslay_event_config_set_max_recv_msg_length(s->frames, SOCKET_MESSAGE_MOST);
    return 1;
}

int frames_receive(rt_socket *s) {
    s->budget = BUDGET;
    int good = wslay_event_recv(s->frames) == 0;
    if (!wslay_event_get_read_enabled(s->frames))
        s->close_queued = 1;   /* wslay's doing: the client closed, or broke the rules */
    return good;
}

/* Reads what nobody needs, so that the system does not answer it with a reset, which would overtake the close. */
int frames_discard(rt_socket *s) {
    char bytes[4096];
    ssize_t got;
    for (size_t n = 0; n < BUDGET; n += (size_t)got)
        if ((got = recv(s->fd, bytes, sizeof(bytes), 0)) <= 0)
            return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    return 1;
}

/* For what the worker has said: half of the messages are left to pongs. */
static int has_room(const rt_socket *s) {
    return wslay_event_get_queued_msg_length(s->frames) < QUEUE_BYTES &&
           wslay_event_get_queued_msg_count(s->frames) < QUEUE_MESSAGES / 2;
}

/* What the worker has said goes to wslay by and by, which copies it. 0: there is nothing more. */
static int refill(rt_socket *s) {
    while (has_room(s)) {
        pthread_mutex_lock(&s->lock);
        rt_note *note = notes_take(&s->outbox);
        pthread_mutex_unlock(&s->lock);
        if (!note)
            return 0;
        struct wslay_event_msg message = {WSLAY_TEXT_FRAME, (const uint8_t *)note->text, note->n};
        wslay_event_queue_msg(s->frames, &message);   /* refused after a close: then nobody wants it */
        free(note);
    }
    return 1;
}

int frames_send(rt_socket *s) {
    int more;
    do {
        more = refill(s);
        if (wslay_event_want_write(s->frames) && wslay_event_send(s->frames) != 0)
            return 0;
    } while (more && has_room(s));
    if (wslay_event_want_write(s->frames) && !s->unsent_ns)
        s->unsent_ns = server_now_ns();
    return 1;
}

int frames_pile_up(const rt_socket *s) { return wslay_event_get_queued_msg_count(s->frames) >= QUEUE_MESSAGES; }

void frames_ping(rt_socket *s) {
    struct wslay_event_msg message = {WSLAY_PING, NULL, 0};
    if (!s->close_queued)
        wslay_event_queue_msg(s->frames, &message);
}

void frames_close(rt_socket *s, int code, const char *reason) {
    if (s->close_queued)
        return;
    s->close_queued = 1;
    drop_message(s);
    wslay_event_queue_close(s->frames, (uint16_t)code, (const uint8_t *)reason, strlen(reason));
}
