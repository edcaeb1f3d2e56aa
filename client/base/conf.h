/* client/base/conf.h - options from tables. A part of LightQ names its options once, in an X-macro; the struct that
 * holds the values, the parser, --help, the man page and docs/configuration.md all come from those rows.
 *
 *     #define NODE_OPTIONS(X) \
 *         X(STRING, peer_listen, "peer.listen", 1, 300, "127.0.0.1:5700", "host:port", false, \
 *           "Where other nodes connect to this one.") \
 *         X(SIZE, max_message_bytes, "max.message.bytes", 1, 64 << 20, "1m", "bytes", true, "The largest message
 * taken.") \ X(ENUM, full, "full", 0, 1, "block", "block|drop-oldest", true, "What a full transient topic does.")
 *
 *     struct node_conf {
 *         NODE_OPTIONS(LQ_CONF_MEMBER)
 *     };
 *     #define X(...) LQ_CONF_ROW(struct node_conf, __VA_ARGS__)
 *     static const struct lq_conf_option rows[] = {NODE_OPTIONS(X)};
 *     #undef X
 *     static const struct lq_conf_table table = LQ_CONF_TABLE("lightqd", rows);
 *
 * The columns of X: kind, member, name, least, most, default, unit, reloadable, sentence.
 *   STRING    char *, owned by the struct; least and most bound its length; default NULL leaves it NULL
 *   U64       uint64_t, decimal
 *   BOOL      bool: true, false, yes, no, on, off, 1, 0; least and most are not looked at
 *   SIZE      uint64_t bytes, decimal with an optional k, m or g (1024, 1024^2, 1024^3)
 *   DURATION  uint64_t milliseconds, decimal with an optional ms, s, m or h
 *   ENUM      uint64_t, the place (from 0) of the word in the unit column, which holds "first|second|..."
 *
 * Any thread, one at a time for each struct. No I/O but the printing functions'. */
#ifndef LQ_BASE_CONF_H
#define LQ_BASE_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client/base/err.h"

enum lq_conf_kind { LQ_CONF_STRING, LQ_CONF_U64, LQ_CONF_BOOL, LQ_CONF_SIZE, LQ_CONF_DURATION, LQ_CONF_ENUM };

struct lq_conf_option {
    const char *name; /* "peer.listen": lower case words between dots */
    enum lq_conf_kind kind;
    uint64_t least, most;
    const char *initial; /* the default as text, or NULL (STRING only) */
    const char *unit;    /* for people; of an ENUM its words, "block|drop-oldest" */
    bool reloadable;     /* may change while running */
    const char *sentence;
    size_t field; /* of the value in the struct */
};

struct lq_conf_table {
    const char *title; /* what these options are of: "lightqd", "topic", "producer" */
    const struct lq_conf_option *options;
    size_t count;
};

#define LQ_CONF_TYPE_STRING   char *
#define LQ_CONF_TYPE_U64      uint64_t
#define LQ_CONF_TYPE_BOOL     bool
#define LQ_CONF_TYPE_SIZE     uint64_t
#define LQ_CONF_TYPE_DURATION uint64_t
#define LQ_CONF_TYPE_ENUM     uint64_t

#define LQ_CONF_MEMBER(kind, member, ...) LQ_CONF_TYPE_##kind member;
#define LQ_CONF_ROW(type, kind_, member, name_, least_, most_, default_, unit_, reloadable_, sentence_) \
    {.name = (name_),                                                                                   \
     .kind = LQ_CONF_##kind_,                                                                           \
     .least = (least_),                                                                                 \
     .most = (most_),                                                                                   \
     .initial = (default_),                                                                             \
     .unit = (unit_),                                                                                   \
     .reloadable = (reloadable_),                                                                       \
     .sentence = (sentence_),                                                                           \
     .field = offsetof(type, member)},
#define LQ_CONF_TABLE(title_, rows_)                                                     \
    {                                                                                    \
        .title = (title_), .options = (rows_), .count = sizeof(rows_) / sizeof(rows_)[0] \
    }

/* Fills @conf (any content) with the defaults. OK: undo with lq_conf_deinit. ENOMEM: nothing to undo. A default that
 * its own row refuses is a bug and asserted. */
lightq_status lq_conf_init(const struct lq_conf_table *table, void *conf) LQ_MUST_CHECK;
/* Frees the strings of @conf. */
void lq_conf_deinit(const struct lq_conf_table *table, void *conf);

/* Sets one option from text; @value is copied. On failure @conf is as before and @err (may be NULL) says which option,
 * what is wrong, and the bound or the nearest name.
 * OK | ENOTFOUND (no such option) | EINVAL (not a value of its kind) | ENOMEM. */
lightq_status lq_conf_set(const struct lq_conf_table *table, void *conf, const char *name, const char *value,
                          struct lq_err *err) LQ_MUST_CHECK;
/* The same for a line of an ini file: in [@section] (NULL or "" when there is none yet) the name is "section.name". */
lightq_status lq_conf_set_in(const struct lq_conf_table *table, void *conf, const char *section, const char *name,
                             const char *value, struct lq_err *err) LQ_MUST_CHECK;
/* The same from "name=value", as --set takes it. EINVAL when there is no '='. */
lightq_status lq_conf_set_pair(const struct lq_conf_table *table, void *conf, const char *pair,
                               struct lq_err *err) LQ_MUST_CHECK;
/* From the environment: with the prefix "LIGHTQ_", peer.listen is LIGHTQ_PEER_LISTEN (letters raised, everything else a
 * low line). @strict: a variable that has the prefix but is not an option is ENOTFOUND; otherwise it is left alone.
 * Stops at the first failure; options set before stay set. */
lightq_status lq_conf_environment(const struct lq_conf_table *table, void *conf, const char *prefix, bool strict,
                                  struct lq_err *err) LQ_MUST_CHECK;

/* The option called @name, or NULL. */
const struct lq_conf_option *lq_conf_find(const struct lq_conf_table *table, const char *name);
/* The value of @option as text that lq_conf_set takes, cut to @size with its zero; an unset string is "". Returns
 * @text. */
char *lq_conf_format(const struct lq_conf_option *option, const void *conf, char *text, size_t size);

/* One line an option for --help; rows of a man page (roff, .TP); rows of a table in Markdown with its heading. */
void lq_conf_print_help(const struct lq_conf_table *table, FILE *out);
void lq_conf_print_man(const struct lq_conf_table *table, FILE *out);
void lq_conf_print_markdown(const struct lq_conf_table *table, FILE *out);
/* The values of @conf as a configuration file that sets the same. */
void lq_conf_print_values(const struct lq_conf_table *table, const void *conf, FILE *out);

#endif
