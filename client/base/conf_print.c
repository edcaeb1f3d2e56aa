/* client/base/conf_print.c - what people read about options: --help, man pages, docs/configuration.md, the values in
 * use. Called by the node's and the tools' main programs and by the documentation build. */
#include <inttypes.h>
#include <string.h>

#include "client/base/conf.h"
#include "client/base/limits.h"

#define BOUND_BYTES 32

/* A bound as people write it, through the same formatting as values. */
static void format_bound(const struct lq_conf_option *option, uint64_t bound, char text[BOUND_BYTES])
{
    struct lq_conf_option alone = {.kind = option->kind, .field = 0};
    if (alone.kind == LQ_CONF_STRING) {
        alone.kind = LQ_CONF_U64; /* a length */
    }
    (void)lq_conf_format(&alone, &bound, text, BOUND_BYTES);
}

/* What values an option takes: "1k to 64m", "block|drop-oldest", "true|false", or how long its text may be. */
static void format_range(const struct lq_conf_option *option, char *text, size_t size)
{
    char least[BOUND_BYTES], most[BOUND_BYTES];
    switch (option->kind) {
    case LQ_CONF_BOOL:
        (void)snprintf(text, size, "true|false");
        return;
    case LQ_CONF_ENUM:
        (void)snprintf(text, size, "%s", option->unit);
        return;
    case LQ_CONF_STRING:
        (void)snprintf(text, size, "%s", option->unit[0] == '\0' ? "text" : option->unit);
        return;
    case LQ_CONF_U64:
    case LQ_CONF_SIZE:
    case LQ_CONF_DURATION:
        format_bound(option, option->least, least);
        if (option->most == UINT64_MAX) {
            (void)snprintf(text, size, "%s or more", least);
        } else {
            format_bound(option, option->most, most);
            (void)snprintf(text, size, "%s to %s", least, most);
        }
        return;
    }
}

/* Whether the unit column says more than the range does. */
static bool has_unit(const struct lq_conf_option *option)
{
    return (option->kind == LQ_CONF_U64 || option->kind == LQ_CONF_SIZE || option->kind == LQ_CONF_DURATION) &&
           option->unit[0] != '\0';
}

static const char *initial_of(const struct lq_conf_option *option)
{
    return option->initial == NULL || option->initial[0] == '\0' ? "none" : option->initial;
}

/* @text with each byte of @special preceded by a backslash. */
static void print_escaped(const char *text, const char *special, FILE *out)
{
    for (; *text != '\0'; text++) {
        if (strchr(special, *text) != NULL) {
            (void)fputc('\\', out);
        }
        (void)fputc(*text, out);
    }
}

/* In roff a minus is "\-" and a line must not begin with a dot; our lines never do. */
static void print_roff(const char *text, FILE *out)
{
    for (; *text != '\0'; text++) {
        if (*text == '-') {
            (void)fputs("\\-", out);
        } else if (*text == '\\') {
            (void)fputs("\\e", out);
        } else {
            (void)fputc(*text, out);
        }
    }
}

void lq_conf_print_help(const struct lq_conf_table *table, FILE *out)
{
    char range[LQ_CONF_TEXT_BYTES_MAX];
    for (size_t i = 0; i < table->count; i++) {
        const struct lq_conf_option *option = &table->options[i];
        format_range(option, range, sizeof range);
        (void)fprintf(out, "  %-26s %s (%s%s%s; default %s)\n", option->name, option->sentence, range,
                      has_unit(option) ? " " : "", has_unit(option) ? option->unit : "", initial_of(option));
    }
}

void lq_conf_print_man(const struct lq_conf_table *table, FILE *out)
{
    char range[LQ_CONF_TEXT_BYTES_MAX];
    for (size_t i = 0; i < table->count; i++) {
        const struct lq_conf_option *option = &table->options[i];
        format_range(option, range, sizeof range);
        (void)fputs(".TP\n\\fB", out);
        print_roff(option->name, out);
        (void)fputs("\\fR = ", out);
        print_roff(range, out);
        (void)fputs("\n", out);
        print_roff(option->sentence, out);
        (void)fputs(" Default: ", out);
        print_roff(initial_of(option), out);
        if (has_unit(option)) {
            (void)fputs(". Unit: ", out);
            print_roff(option->unit, out);
        }
        (void)fputs(option->reloadable ? ". May change while running.\n" : ".\n", out);
    }
}

void lq_conf_print_markdown(const struct lq_conf_table *table, FILE *out)
{
    char range[LQ_CONF_TEXT_BYTES_MAX];
    (void)fputs("| option | values | unit | default | reloadable | what it does |\n|---|---|---|---|---|---|\n", out);
    for (size_t i = 0; i < table->count; i++) {
        const struct lq_conf_option *option = &table->options[i];
        format_range(option, range, sizeof range);
        (void)fprintf(out, "| `%s` | ", option->name);
        print_escaped(range, "|", out);
        (void)fprintf(out, " | %s | ", has_unit(option) ? option->unit : "");
        print_escaped(initial_of(option), "|", out);
        (void)fprintf(out, " | %s | ", option->reloadable ? "yes" : "no");
        print_escaped(option->sentence, "|", out);
        (void)fputs(" |\n", out);
    }
}

void lq_conf_print_values(const struct lq_conf_table *table, const void *conf, FILE *out)
{
    char value[LQ_CONF_TEXT_BYTES_MAX];
    for (size_t i = 0; i < table->count; i++) {
        (void)fprintf(out, "%s = %s\n", table->options[i].name,
                      lq_conf_format(&table->options[i], conf, value, sizeof value));
    }
}
