/* tests/unit/chaos/check_fixture.h - judges a history given as text and compares which checkers found something. */
#ifndef LQ_TESTS_CHECK_FIXTURE_H
#define LQ_TESTS_CHECK_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "chaos/check/check.h"

/* A set of checkers. */
#define SET(name) (1u << LQ_CHECKER_##name)

/* Loads @text (without the first line, which is added); fails the test when it does not load. */
void load_text(struct lq_history *history, const char *text);
/* The checkers with violations. */
unsigned violated(const struct lq_check_report *report);
/* Judges @text with @options (NULL: none) and fails the test unless exactly the checkers in @expected found something.
 * @report may be NULL; else the caller deinits it. */
void judge_text(const char *text, const struct lq_check_options *options, unsigned expected,
                struct lq_check_report *report);
/* The same of a loaded history, whose description is @what. */
void judge_history(const struct lq_history *history, const struct lq_check_options *options, unsigned expected,
                   struct lq_check_report *report, const char *what);

/* A test whose history must be found wrong by exactly the checkers of @expected: 0 for a near miss. */
#define CHECK_CASE(test_name, expected, text)        \
    static void test_check_##test_name(void **state) \
    {                                                \
        (void)state;                                 \
        judge_text(text, NULL, expected, NULL);      \
    }

#endif
