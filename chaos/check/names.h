/* chaos/check/names.h - words and pairs of numbers, each kept once and known by its place (0, 1, ...). Used by
 * history.c for producers, readers, logs, nodes, and for "reader in log" and "observer of log". */
#ifndef LQ_CHECK_NAMES_H
#define LQ_CHECK_NAMES_H

#include "chaos/check/index.h"

enum { LQ_WORD_BYTES_MAX = 255 }; /* of one name: a topic, a slash and a partition fit */

struct lq_word {
    const char *at; /* borrowed; not zero-terminated */
    size_t size;
};

struct lq_check_names {
    char *bytes; /* owned: the words, each with a zero behind it */
    size_t size, capacity;
    size_t *starts; /* owned: of each word in bytes */
    uint32_t count, starts_capacity;
    struct lq_check_index index;
};

/* The place of @word, added when it is new. OK | ENOMEM | ELIMIT | EINVAL (empty, longer than LQ_WORD_BYTES_MAX, or
 * with a byte that is not printable ASCII or is a space). */
lightq_status lq_check_names_put(struct lq_check_names *names, struct lq_word word, uint32_t *place) LQ_MUST_CHECK;
/* LQ_INDEX_NONE when it is not there. */
uint32_t lq_check_names_find(const struct lq_check_names *names, struct lq_word word);
/* The word, zero-terminated; borrowed until the next put. */
const char *lq_check_names_at(const struct lq_check_names *names, uint32_t place);
void lq_check_names_deinit(struct lq_check_names *names);

struct lq_pair {
    uint32_t first, second;
};

struct lq_pairs {
    struct lq_pair *at; /* owned */
    uint32_t count, capacity;
    struct lq_check_index index;
};

/* The place of the pair, added when it is new. OK | ENOMEM | ELIMIT. */
lightq_status lq_pairs_put(struct lq_pairs *pairs, uint32_t first, uint32_t second, uint32_t *place) LQ_MUST_CHECK;
/* LQ_INDEX_NONE when it is not there. */
uint32_t lq_pairs_find(const struct lq_pairs *pairs, uint32_t first, uint32_t second);
void lq_pairs_deinit(struct lq_pairs *pairs);

#endif
