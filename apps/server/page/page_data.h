/* server/page/page_data.h - the table of files that embed.py makes from this folder when the server is built. */
#ifndef SERVER_PAGE_DATA_H
#define SERVER_PAGE_DATA_H

#include "page/page.h"

extern const page_asset page_assets[];
extern const size_t page_n_assets;

#endif
