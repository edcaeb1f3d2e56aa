/* chaos/check/report.h - a report as text for people and as JSON for programs. */
#ifndef LQ_CHECK_REPORT_H
#define LQ_CHECK_REPORT_H

#include <stdio.h>

#include "chaos/check/check.h"

/* Every checker with its counts and examples, the figures, and a last line "passed: ..." or "FAILED: ...". */
void lq_report_print(const struct lq_check_report *report, FILE *file);
/* One object on one line:
 *   passed, reason (null when passed), attempted, acknowledged, failed, unknown, reads, messages, trimmed, settled,
 *   redelivered, redelivered_after_ack,
 *   checkers: {NAME: {checked, violations, examples: [...]}},
 *   recovery: {measured, overlapped, unmeasured, never, p50_us, max_us (null when nothing was measured),
 *              faults: [{fault, kind, scope, begin_us, heal_us|null, recovery_us|null, state}]}
 * OK | ENOMEM | EIO. */
lightq_status lq_report_print_json(const struct lq_check_report *report, const struct lq_history *history,
                                   FILE *file) LQ_MUST_CHECK;

#endif
