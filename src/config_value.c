/* SPDX-License-Identifier: MIT */
#include "config_value.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char file_mark[] = "file:";
#define VARIABLE_MAX 128

void config_value_free(char *text) {
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

static bool is_file(const char *text, bool secret) {
    return secret && strncmp(text, file_mark, sizeof file_mark - 1) == 0;
}

bool config_value_is_derived(const char *text, bool secret) {
    return strstr(text, "${") || is_file(text, secret);
}

void config_value_escape(const char *text, struct buf *out) {
    for (; *text; text++) {
        if (text[0] == '$' && text[1] == '{')
            buf_char(out, '$');
        buf_char(out, *text);
    }
}

/* ---- the environment ---- */

/* The value of the variable whose name begins at `s`, up to its brace; NULL with an error. */
static const char *variable(const char *file, const struct config_node *n, const char *s, size_t *len,
                            struct error *err) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    char name[VARIABLE_MAX];
    *len = strspn(s, letters);
    if (*len == 0 || *len >= sizeof name || s[*len] != '}' || (*s >= '0' && *s <= '9')) {
        config_node_error(
            file, n, err,
            "${ must be ${NAME}, the name of an environment variable; a plain ${ is written $${");
        return NULL;
    }
    memcpy(name, s, *len);
    name[*len] = '\0';
    const char *value = getenv(name);
    if (!value)
        config_node_error(file, n, err, "the environment variable %s isn't set; a plain ${ is written $${",
                          name);
    return value;
}

/* What `s` stands for into `to`, or only its length when that is NULL: sized beforehand, since a buffer that
 * grows would leave pieces of a secret behind. */
static bool fill_in(const char *file, const struct config_node *n, const char *s, char *to, size_t *len,
                    struct error *err) {
    *len = 0;
    while (*s) {
        const char *piece = s;
        size_t piece_len = 1, used = 1;
        if (strncmp(s, "$${", 3) == 0) {
            piece = s + 1;
            piece_len = 2;
            used = 3;
        } else if (strncmp(s, "${", 2) == 0) {
            size_t name_len;
            piece = variable(file, n, s + 2, &name_len, err);
            if (!piece)
                return false;
            piece_len = strlen(piece);
            used = name_len + 3;
        }
        if (to)
            memcpy(to + *len, piece, piece_len);
        *len += piece_len;
        s += used;
    }
    return true;
}

static char *filled_in(const char *file, const struct config_node *n, const char *s, struct error *err) {
    size_t len;
    if (!fill_in(file, n, s, NULL, &len, err))
        return NULL;
    char *text = mem_alloc(len + 1);
    if (!fill_in(file, n, s, text, &len, err)) { /* it was there a moment ago */
        free(text);
        return NULL;
    }
    text[len] = '\0';
    return text;
}

/* ---- files ---- */

/* The path as it's opened: of a relative one the configuration's folder comes first. */
static char *resolve(const char *file, const char *path) {
    const char *slash = strrchr(file, '/');
    size_t folder = *path != '/' && slash ? (size_t)(slash + 1 - file) : 0, len = strlen(path);
    char *whole = mem_alloc(folder + len + 1);
    memcpy(whole, file, folder);
    memcpy(whole + folder, path, len + 1);
    return whole;
}

/* What is wrong with the file, as far as that shows before reading it. */
static bool is_fit(const char *file, const struct config_node *n, const char *shown, int fd,
                   struct error *err) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return config_node_error(file, n, err, "%s: can't be read: %s", shown, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return config_node_error(file, n, err, "%s: isn't a regular file", shown);
    if (st.st_mode & S_IRWXO)
        return config_node_error(file, n, err,
                                 "%s: is open to everybody on this machine (mode %04o); chmod 600 or 640",
                                 shown, (unsigned)(st.st_mode & 07777));
    return true;
}

/* Whole, or up to `room` bytes; -1 with errno. */
static ssize_t read_up_to(int fd, char *to, size_t room) {
    size_t got = 0;
    while (got < room) {
        ssize_t n = read(fd, to + got, room - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -1 : (ssize_t)got;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

/* The file's contents, without the line's end that editors put there. */
static char *contents(const char *file, const struct config_node *n, const char *shown, int fd, size_t max,
                      struct error *err) {
    size_t room = max + 2; /* that line's end, and one byte to see that there's more */
    char *text = mem_alloc(room + 1);
    ssize_t got = read_up_to(fd, text, room);
    size_t len = got > 0 ? (size_t)got : 0;
    bool ok = false;
    if (len && text[len - 1] == '\n')
        len--;
    if (got < 0)
        config_node_error(file, n, err, "%s: can't be read: %s", shown, strerror(errno));
    else if (len == 0)
        config_node_error(file, n, err, "%s: is empty", shown);
    else if (len > max)
        config_node_error(file, n, err, "%s: holds over %zu bytes", shown, max);
    else if (memchr(text, '\0', len))
        config_node_error(file, n, err, "%s: holds a NUL character", shown);
    else
        ok = true;
    text[len] = '\0';
    if (ok)
        return text;
    explicit_bzero(text, room + 1);
    free(text);
    return NULL;
}

static char *from_file(const char *file, const struct config_node *n, size_t max, struct error *err) {
    char shown[CONFIG_SHOWN_SIZE];
    config_show(shown, n->text);
    char *name = filled_in(file, n, n->text + sizeof file_mark - 1, err);
    if (!name)
        return NULL;
    char *path = resolve(file, name), *text = NULL;
    /* Without O_NONBLOCK a FIFO would hold the start up until somebody writes to it. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (!*name)
        config_node_error(file, n, err, "%s: names no file", shown);
    else if (fd < 0)
        config_node_error(file, n, err, "%s: can't be read: %s", shown, strerror(errno));
    else if (is_fit(file, n, shown, fd, err))
        text = contents(file, n, shown, fd, max, err);
    if (fd >= 0)
        close(fd);
    config_value_free(path);
    config_value_free(name);
    return text;
}

char *config_value_new(const char *file, const struct config_node *n, bool secret, size_t max,
                       struct error *err) {
    return is_file(n->text, secret) ? from_file(file, n, max, err) : filled_in(file, n, n->text, err);
}
