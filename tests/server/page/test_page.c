/* test_page.c - the files of the page as the server has them: the bytes of the source tree, types, tags, headers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/check.h"
#include "page/page.h"

static const char *file_of(const page_asset *asset) {
    static char path[4096];
    const char *name = strcmp(asset->path, "/") ? strrchr(asset->path, '/') + 1 : "index.html";
    snprintf(path, sizeof(path), "%s/apps/server/page/www/%s", getenv("MXW_SOURCE_ROOT"), name);
    return path;
}

static int same_as_file(const page_asset *asset) {
    FILE *file = fopen(file_of(asset), "rb");
    if (!file)
        return 0;
    unsigned char *bytes = malloc(asset->n_bytes + 1);
    size_t n = fread(bytes, 1, asset->n_bytes + 1, file);
    int same = n == asset->n_bytes && memcmp(bytes, asset->bytes, n) == 0;
    free(bytes);
    fclose(file);
    return same;
}

static void test_assets(void) {
    size_t n = 0;
    for (const page_asset *asset; (asset = page_at(n)) != NULL; n++) {
        size_t length = strlen(asset->etag);
        CHECK(same_as_file(asset));
        CHECK(page_find(asset->path) == asset);
        CHECK(length > 10 && asset->etag[0] == '"' && asset->etag[length - 1] == '"');
        CHECK(strchr(asset->type, '/') != NULL);
        for (size_t i = 0; i < n; i++)
            CHECK(strcmp(page_at(i)->etag, asset->etag) != 0);
    }
    CHECK(n > 15);
    CHECK(strncmp(page_find("/")->type, "text/html", 9) == 0);
    CHECK(strncmp(page_find("/page/worklet.js")->type, "text/javascript", 15) == 0);
    CHECK(page_find("/page/index.html") == NULL);
    CHECK(page_find("/page/../page.c") == NULL);
    CHECK(page_find("") == NULL);
}

static void test_tags(void) {
    const page_asset *asset = page_find("/");
    char list[200];
    CHECK(page_is_known(asset, asset->etag));
    CHECK(page_is_known(asset, "*"));
    snprintf(list, sizeof(list), "\"other\", W/%s", asset->etag);
    CHECK(page_is_known(asset, list));
    CHECK(!page_is_known(asset, NULL));
    CHECK(!page_is_known(asset, ""));
    CHECK(!page_is_known(asset, "\"other\""));
    CHECK(!page_is_known(asset, "\""));
    CHECK(!page_is_known(page_find("/page/app.js"), asset->etag));
}

static const char *header(const char *name) {
    for (const page_header *h = page_headers(); h->name; h++)
        if (strcmp(h->name, name) == 0)
            return h->value;
    return "";
}

static void test_headers(void) {
    const char *policy = header("Content-Security-Policy");
    CHECK(strstr(policy, "default-src 'none'") && strstr(policy, "script-src 'self';"));
    CHECK(strstr(policy, "style-src 'self';") && strstr(policy, "frame-ancestors 'none'"));
    CHECK(!strstr(policy, "unsafe") && !strstr(policy, "http") && !strstr(policy, "*") && !strstr(policy, "data:"));
    CHECK(strcmp(header("X-Content-Type-Options"), "nosniff") == 0);
    CHECK(strcmp(header("Cache-Control"), "no-cache") == 0);
}

int main(void) {
    test_assets();
    test_tags();
    test_headers();
    return check_done();
}
