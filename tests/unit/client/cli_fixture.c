/* tests/unit/client/cli_fixture.c - see cli_fixture.h. */
#include "tests/unit/client/cli_fixture.h"

#include <stdlib.h>

void run_cli(struct fixture *f, struct run *run, const char *arguments)
{
    char command[4096];
    snprintf(command, sizeof command, "{ LIGHTQ_SERVERS=%s %s %s ; } 2>&1", fake_cluster_servers(f->cluster),
             LIGHTQ_CLI, arguments);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t size = fread(run->output, 1, sizeof run->output - 1, pipe);
    run->output[size] = '\0';
    int status = pclose(pipe);
    run->exit_code = status >= 0 ? status >> 8 : -1;
}

void expect(struct fixture *f, const char *arguments, int exit_code, const char *part)
{
    struct run *run = malloc(sizeof *run);
    assert_non_null(run);
    run_cli(f, run, arguments);
    if (run->exit_code != exit_code || strstr(run->output, part) == NULL) {
        print_error("lightq %s: exit %d: %s\n", arguments, run->exit_code, run->output);
    }
    assert_int_equal(run->exit_code, exit_code);
    assert_non_null(strstr(run->output, part));
    free(run);
}

json_t *expect_json(struct fixture *f, const char *arguments)
{
    char with_format[1024];
    struct run *run = malloc(sizeof *run);
    assert_non_null(run);
    snprintf(with_format, sizeof with_format, "--format json %s", arguments);
    run_cli(f, run, with_format);
    if (run->exit_code != 0) {
        print_error("lightq %s: exit %d: %s\n", arguments, run->exit_code, run->output);
    }
    assert_int_equal(run->exit_code, 0);
    json_t *object = json_loads(run->output, JSON_DISABLE_EOF_CHECK, NULL);
    assert_non_null(object);
    free(run);
    return object;
}

json_int_t integer_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value)) {
        print_error("no number %s\n", key);
    }
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}
