/* server/transcriptions/form_type.h - the Content-Type of a form, in any way that a client may write it.
 *
 * libmicrohttpd's post processor reads the header by itself, and by one spelling: it takes all that follows the first
 * "boundary=" for the boundary, and any type that begins with multipart/form-data for a form.
 */
#ifndef SERVER_TRANSCRIPTIONS_FORM_TYPE_H
#define SERVER_TRANSCRIPTIONS_FORM_TYPE_H

/* Rewrites a Content-Type in place to what libmicrohttpd reads: "multipart/form-data;boundary=BOUNDARY", without a
 * boundary where there is none, or one that cannot be. It never gets longer. 0: it is another type, and stays. */
int form_type_plain(char *type);

#endif
