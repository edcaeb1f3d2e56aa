/* client/cli/place.c - reads a place in a log from the command line: start, end, an offset, or a time. Called by the
 * verbs that have --from or --to. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"

#define RADIX        10
#define MS_PER_S     1000
#define S_PER_MINUTE 60
#define S_PER_HOUR   3600
#define S_PER_DAY    86400
#define YEAR_LEAST   1970
#define YEAR_MOST    9999

struct moment {
    int year, month, day, hour, minute, second, ms;
};

/* Days from 1970-01-01 to that day of the Gregorian calendar. */
static int64_t days_of(const struct moment *moment)
{
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    int64_t year = moment->year;
    int64_t leaps = (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400 - (1969 / 4 - 1969 / 100 + 1969 / 400);
    bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return (year - YEAR_LEAST) * 365 + leaps + before[moment->month - 1] + (is_leap && moment->month > 2) +
           moment->day - 1;
}

static bool is_moment(const struct moment *moment)
{
    static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return moment->year >= YEAR_LEAST && moment->year <= YEAR_MOST && moment->month >= 1 && moment->month <= 12 &&
           moment->day >= 1 && moment->day <= days[moment->month - 1] && moment->hour >= 0 && moment->hour <= 23 &&
           moment->minute >= 0 && moment->minute <= 59 && moment->second >= 0 && moment->second <= 60 &&
           moment->ms >= 0 && moment->ms <= 999;
}

/* The number of @digits digits at *at, which moves behind it and behind @before, the character that must come first
 * ('\0': none). False: it is not there, and *at stays. */
static bool take_digits(const char **at, char before, int digits, int *number)
{
    const char *text = *at;
    if (before != '\0' && *text++ != before) {
        return false;
    }
    *number = 0;
    for (int i = 0; i < digits; i++, text++) {
        if (*text < '0' || *text > '9') {
            return false;
        }
        *number = *number * RADIX + (*text - '0');
    }
    *at = text;
    return true;
}

/* 2026-01-31, 2026-01-31T23:59, 2026-01-31T23:59:59, 2026-01-31T23:59:59.999; with or without Z: always UTC. */
static bool parse_time(const char *text, int64_t *time_ms)
{
    struct moment at = {.year = 0};
    if (!take_digits(&text, '\0', 4, &at.year) || !take_digits(&text, '-', 2, &at.month) ||
        !take_digits(&text, '-', 2, &at.day)) {
        return false;
    }
    if (take_digits(&text, 'T', 2, &at.hour) && take_digits(&text, ':', 2, &at.minute) &&
        take_digits(&text, ':', 2, &at.second)) {
        (void)take_digits(&text, '.', 3, &at.ms);
    }
    text += *text == 'Z';
    if (*text != '\0' || !is_moment(&at)) {
        return false;
    }
    int64_t seconds = days_of(&at) * S_PER_DAY + at.hour * S_PER_HOUR + at.minute * S_PER_MINUTE + at.second;
    *time_ms = seconds * MS_PER_S + at.ms;
    return true;
}

enum cli_exit cli_parse_place(const char *option, const char *text, struct lightq_start *start)
{
    char *end;
    *start = (struct lightq_start){.kind = LIGHTQ_START_BEGIN};
    if (text == NULL || strcmp(text, "start") == 0) {
        return CLI_DONE;
    }
    if (strcmp(text, "end") == 0) {
        start->kind = LIGHTQ_START_END;
        return CLI_DONE;
    }
    errno = 0;
    long long offset = strtoll(text, &end, RADIX);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0) {
        start->kind = LIGHTQ_START_OFFSET;
        start->offset = offset;
        return CLI_DONE;
    }
    if (parse_time(text, &start->time_ms)) {
        start->kind = LIGHTQ_START_TIME;
        return CLI_DONE;
    }
    return cli_usage("--%s takes start, end, an offset or a time as 2026-01-31T23:59:59Z, and not '%s'", option, text);
}
