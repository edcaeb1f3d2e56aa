/* node/options_print.c - what people read about lightqd's options: --help, the manual page docs/man/lightqd.1, and
 * docs/configuration.md. The last two are generated from here; a test compares the committed files. */
#include "node/options.h"

#include "node/queue/topic_config.h"
#include "node/version.h"

static const char usage_text[] =
    "Usage: lightqd [--config FILE] [--data DIR] [--node-id N] [--seeds HOST:PEERPORT,...] [--expect N]\n"
    "               [--listen HOST:PORT] [--advertise HOST:PORT] [--peer-listen HOST:PORT]\n"
    "               [--peer-advertise HOST:PORT] [--http HOST:PORT] [--set NAME=VALUE]... [--help] [--version]\n";

void lq_options_print_help(FILE *out)
{
    (void)fprintf(
        out,
        "%s\n"
        "Runs one node of a LightQ cluster. Without any flag it is a cluster of one, on 127.0.0.1:5600, with its\n"
        "data in ./lightq-data. It prints a line that begins with \"ready\" when it serves.\n\n"
        "Every option below can be set with --set NAME=VALUE, in the environment (peer.listen is\n"
        "LIGHTQ_PEER_LISTEN), and in the file given with --config (or LIGHTQ_CONFIG), as lines NAME = VALUE. A\n"
        "flag goes before the environment, the environment before the file.\n\n",
        usage_text);
    lq_conf_print_help(&lq_options_table, out);
}

static const char man_head[] =
    ".SH NAME\n"
    "lightqd \\- a node of a LightQ cluster\n"
    ".SH SYNOPSIS\n"
    ".B lightqd\n"
    "[\\fB\\-\\-config\\fR \\fIFILE\\fR]\n"
    "[\\fB\\-\\-data\\fR \\fIDIR\\fR]\n"
    "[\\fB\\-\\-node\\-id\\fR \\fIN\\fR]\n"
    "[\\fB\\-\\-seeds\\fR \\fIHOST:PEERPORT,...\\fR]\n"
    "[\\fB\\-\\-expect\\fR \\fIN\\fR]\n"
    "[\\fB\\-\\-listen\\fR \\fIHOST:PORT\\fR]\n"
    "[\\fB\\-\\-advertise\\fR \\fIHOST:PORT\\fR]\n"
    "[\\fB\\-\\-peer\\-listen\\fR \\fIHOST:PORT\\fR]\n"
    "[\\fB\\-\\-peer\\-advertise\\fR \\fIHOST:PORT\\fR]\n"
    "[\\fB\\-\\-http\\fR \\fIHOST:PORT\\fR]\n"
    "[\\fB\\-\\-set\\fR \\fINAME=VALUE\\fR]...\n"
    ".br\n"
    ".B lightqd\n"
    "\\fB\\-\\-help\\fR | \\fB\\-\\-version\\fR\n"
    ".SH DESCRIPTION\n"
    "Runs one node of a LightQ cluster: it stores replicas of partitions, replicates them with the other nodes, and\n"
    "serves clients. Without any flag it is a cluster of one node on 127.0.0.1:5600, with its data in "
    "./lightq\\-data.\n"
    ".PP\n"
    "To make a cluster, start every node with a node id of its own and the same\n"
    ".BR \\-\\-seeds .\n"
    "The cluster is made once, when all the seeds answer and all of them are blank. A node that is started later, "
    "with\n"
    "any node of the cluster among its seeds, joins it.\n"
    ".PP\n"
    "When it serves it prints one line on standard output that begins with the word\n"
    ".BR ready .\n"
    "Log lines go to standard error.\n"
    ".SH FLAGS\n"
    "A flag stands for the option in brackets.\n"
    ".TP\n\\fB\\-\\-config\\fR \\fIFILE\\fR\nThe configuration file.\n"
    ".TP\n\\fB\\-\\-data\\fR, \\fB\\-\\-seeds\\fR, \\fB\\-\\-listen\\fR, \\fB\\-\\-advertise\\fR, \\fB\\-\\-http\\fR\n"
    "The options of the same name.\n"
    ".TP\n\\fB\\-\\-node\\-id\\fR \\fIN\\fR\n[node.id]\n"
    ".TP\n\\fB\\-\\-expect\\fR \\fIN\\fR\n[cluster.expect]\n"
    ".TP\n\\fB\\-\\-peer\\-listen\\fR, \\fB\\-\\-peer\\-advertise\\fR \\fIHOST:PORT\\fR\n[peer.listen, "
    "peer.advertise]\n"
    ".TP\n\\fB\\-\\-set\\fR \\fINAME=VALUE\\fR\nAny option. May be given many times.\n"
    ".TP\n\\fB\\-\\-help\\fR, \\fB\\-\\-version\\fR\nPrint and end.\n"
    ".SH OPTIONS\n"
    "A value comes from its default, then from the configuration file, then from the environment, then from the "
    "flags;\n"
    "the last one counts. Sizes take k, m or g behind the number, durations ms, s, m or h (milliseconds without).\n";

static const char man_tail[] =
    ".SH CONFIGURATION FILE\n"
    "Lines \\fINAME\\fR = \\fIVALUE\\fR; what begins with ; or # is a comment. Under [\\fISECTION\\fR] the name is\n"
    "\\fISECTION\\fR.\\fINAME\\fR, so that\n"
    ".PP\n.nf\n.RS\n[peer]\nlisten = 10.0.0.1:5700\n.RE\n.fi\n.PP\n"
    "sets peer.listen.\n"
    ".SH ENVIRONMENT\n"
    ".TP\n.B LIGHTQ_CONFIG\nThe configuration file, when \\fB\\-\\-config\\fR is not given.\n"
    ".TP\n.B LIGHTQ_\\fINAME\\fR\nAny option, with its letters raised and dots made low lines: LIGHTQ_PEER_LISTEN.\n"
    ".SH SIGNALS\n"
    ".TP\n.BR SIGTERM ,\\ SIGINT\n"
    "Hand the leadership of every partition over (at most \\fBdrain.timeout.ms\\fR), then end. A second one ends at "
    "once;\n"
    "nothing acknowledged is lost by that.\n"
    ".SH EXIT STATUS\n"
    ".TP\n.B 0\nIt was told to end, and did.\n"
    ".TP\n.B 1\nIt could not start or go on. One sentence on standard error says why and what to do; when it could not "
    "start,\n"
    "nothing on disk was changed.\n"
    ".TP\n.B 2\nA flag is wrong.\n"
    ".SH SEE ALSO\n"
    ".BR lightq (1)\n";

void lq_options_print_man(FILE *out)
{
    (void)fprintf(out,
                  ".\\\" Generated by lightqd --man from the table in node/options.h. Do not edit.\n"
                  ".TH LIGHTQD 1 \"\" \"LightQ " LQ_VERSION_TEXT "\"\n%s",
                  man_head);
    lq_conf_print_man(&lq_options_table, out);
    (void)fputs(man_tail, out);
}

void lq_options_print_docs(FILE *out)
{
    (void)fputs(
        "<!-- Generated by lightqd --docs from the table in node/options.h. Do not edit. -->\n"
        "# Configuration of a node\n\n"
        "A value comes from its default, then from the configuration file (`--config FILE` or `LIGHTQ_CONFIG`), then\n"
        "from the environment, then from the flags; the last one counts. Every option can be set in all of them:\n\n"
        "| where | how `peer.listen` is set there |\n|---|---|\n"
        "| file | `peer.listen = 10.0.0.1:5700`, or `listen = 10.0.0.1:5700` below `[peer]` |\n"
        "| environment | `LIGHTQ_PEER_LISTEN=10.0.0.1:5700` |\n"
        "| flag | `--set peer.listen=10.0.0.1:5700`; it also has a flag of its own, `--peer-listen` |\n\n"
        "Sizes take `k`, `m` or `g` behind the number, durations `ms`, `s`, `m` or `h` (milliseconds without).\n\n",
        out);
    lq_conf_print_markdown(&lq_options_table, out);
    (void)fputs(
        "\n## Flags of their own\n\n"
        "| flag | option |\n|---|---|\n"
        "| `--data` | `data` |\n| `--node-id` | `node.id` |\n| `--seeds` | `seeds` |\n"
        "| `--expect` | `cluster.expect` |\n| `--listen` | `listen` |\n| `--advertise` | `advertise` |\n"
        "| `--peer-listen` | `peer.listen` |\n| `--peer-advertise` | `peer.advertise` |\n| `--http` | `http` |\n"
        "\n## Settings of topics\n\n"
        "Given with `lightq topic create --config NAME=VALUE`, changed with `lightq topic alter --config NAME=VALUE`, "
        "shown\n"
        "by `lightq topic describe`. Retention goes by the leader's clock and log: the time a client writes into a "
        "message never\n"
        "deletes anything, and all replicas drop the same.\n\n",
        out);
    lq_conf_print_markdown(&lq_topic_config_table, out);
}
