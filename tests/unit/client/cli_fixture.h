/* tests/unit/client/cli_fixture.h - runs the lightq command on pretended servers, for its tests. */
#ifndef LQ_TESTS_CLI_FIXTURE_H
#define LQ_TESTS_CLI_FIXTURE_H

#include "tests/unit/client/client_fixture.h"

#include <jansson.h>

#define OUTPUT_BYTES 65536

struct run {
    int exit_code;
    char output[OUTPUT_BYTES]; /* standard output and standard error */
};

/* Runs `lightq <arguments>` on the fixture's servers, through the shell. */
void run_cli(struct fixture *f, struct run *run, const char *arguments);
/* The same; it must exit with @exit_code and say @part. */
void expect(struct fixture *f, const char *arguments, int exit_code, const char *part);
/* The object that `lightq --format json <arguments>` prints. Give it up with json_decref. */
json_t *expect_json(struct fixture *f, const char *arguments);
json_int_t integer_of(const json_t *object, const char *key);

#endif
