/* node/metrics.c - see metrics.h. */
#include "node/metrics.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "node/version.h"

#define LINE_BYTES_MAX 1024

LQ_PRINTF(2, 3) static void write_line(struct lq_writer *out, const char *format, ...)
{
    char line[LINE_BYTES_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    lq_write_bytes(out, line, strlen(line));
}

bool lq_health_write(const struct lq_shard *shard, bool serving, struct lq_writer *out)
{
    bool well = serving;
    if (!serving) {
        write_line(out, shard->meta == NULL ? "not a member of a cluster\n" : "not serving: starting or ending\n");
    }
    if (shard->meta != NULL) {
        struct lq_meta_counts counts;
        lq_meta_count(shard->meta, &counts);
        if (lq_meta_leader(shard->meta, LQ_META_GROUP).node == 0) {
            well = false;
            write_line(out, "no controller is known\n");
        }
        if (counts.replicas_stopped > 0) {
            well = false;
            write_line(out, "%" PRIu32 " of %" PRIu32 " replicas here are not at work (see lightq cluster status)\n",
                       counts.replicas_stopped, counts.replicas);
        }
    }
    if (well) {
        write_line(out, "ok\n");
    }
    return well;
}

static void write_metric(struct lq_writer *out, const char *kind, const char *name, const char *sentence,
                         uint64_t value)
{
    write_line(out, "# HELP lightq_%s %s\n# TYPE lightq_%s %s\nlightq_%s %" PRIu64 "\n", name, sentence, name, kind,
               name, value);
}

static void write_store(const struct lq_store_counters *counters, struct lq_writer *out)
{
    write_metric(out, "counter", "store_flushes_total", "Flushes, each with its syncs.", counters->flushes);
    write_metric(out, "counter", "store_segment_syncs_total", "Syncs of segment files.", counters->segment_syncs);
    write_metric(out, "counter", "store_journal_syncs_total", "Syncs of the journal.", counters->journal_syncs);
    write_metric(out, "counter", "store_bytes_written_total", "Bytes written to segments.", counters->bytes_written);
    write_metric(out, "counter", "store_journal_bytes_written_total", "Bytes written to the journal.",
                 counters->journal_bytes_written);
    write_metric(out, "counter", "store_entries_appended_total", "Entries appended to logs.",
                 counters->entries_appended);
    write_metric(out, "gauge", "store_cache_bytes", "Entries in memory.", counters->cache_bytes);
    write_metric(out, "counter", "store_cache_hits_total", "Entries asked for and found in memory.",
                 counters->cache_hits);
    write_metric(out, "counter", "store_cache_misses_total", "Entries asked for and not in memory.",
                 counters->cache_misses);
    write_metric(out, "counter", "store_scrubbed_bytes_total", "Bytes read in search of rot.", counters->scrub_bytes);
    write_metric(out, "counter", "store_scrub_passes_total", "Searches for rot that went through all files.",
                 counters->scrub_passes);
    write_metric(out, "counter", "store_scrub_errors_total", "Files found bad by these.", counters->scrub_errors);
    write_metric(out, "gauge", "store_oldest_pending_microseconds",
                 "How long the oldest write has waited for its sync.", counters->oldest_pending_us);
}

static void write_transport(const struct lq_transport_counters *counters, struct lq_writer *out)
{
    write_metric(out, "counter", "peer_frames_sent_total", "Frames to other nodes.", counters->frames_sent);
    write_metric(out, "counter", "peer_bytes_sent_total", "Bytes to other nodes.", counters->bytes_sent);
    write_metric(out, "counter", "peer_frames_received_total", "Frames from other nodes.", counters->frames_received);
    write_metric(out, "counter", "peer_bytes_received_total", "Bytes from other nodes.", counters->bytes_received);
    write_metric(out, "counter", "peer_dropped_total", "Frames not sent: no connection, or its queue was full.",
                 counters->dropped_full + counters->dropped_unconnected);
    write_metric(out, "counter", "peer_connections_lost_total", "Connections with other nodes that broke.",
                 counters->lost);
    write_metric(out, "counter", "peer_malformed_total", "Connections closed for what they sent.", counters->malformed);
    write_metric(out, "counter", "peer_refused_total", "Nodes refused, or that refuse this one.",
                 counters->refused_hellos + counters->rejections);
    write_metric(out, "counter", "peer_strangers_total", "Connections closed because they did not say who they are.",
                 counters->silent + counters->evicted);
}

static void write_host(const struct lq_host_counters *counters, uint64_t leading, struct lq_writer *out)
{
    write_metric(out, "gauge", "raft_groups_leading", "Groups that this node leads.", leading);
    write_metric(out, "counter", "raft_messages_dropped_total", "Raft messages that were not sent.",
                 counters->messages_dropped);
    write_metric(out, "counter", "raft_messages_refused_total", "Raft messages received and not taken.",
                 counters->messages_refused);
    write_metric(out, "counter", "raft_groups_failed_total", "Replicas here that stopped.", counters->groups_failed);
    write_metric(out, "counter", "raft_stalls_total", "Leaderships handed over because the disk did not answer.",
                 counters->stalls);
    write_metric(out, "counter", "raft_peers_lost_total", "Followers that lost what they had acknowledged.",
                 counters->peers_lost);
}

static void write_meta(const struct lq_meta *meta, struct lq_writer *out)
{
    struct lq_meta_counts counts;
    lq_meta_count(meta, &counts);
    write_metric(out, "gauge", "catalog_version", "Version of the catalog.", lq_catalog_version(lq_meta_catalog(meta)));
    write_metric(out, "gauge", "topics", "Topics of the cluster.", counts.topics);
    write_metric(out, "gauge", "partitions", "Partitions of the cluster.", counts.partitions);
    write_metric(out, "gauge", "partitions_leaderless", "Partitions without a leader known here.", counts.leaderless);
    write_metric(out, "gauge", "replicas", "Replicas that should be here.", counts.replicas);
    write_metric(out, "gauge", "replicas_stopped", "Replicas here that are not at work.", counts.replicas_stopped);
    write_metric(out, "gauge", "meta_requests", "Changes of the cluster that wait here.", counts.requests_waiting);
}

/* Of all shards: this one as it is, the others as they last said. */
static void sum_up(struct lq_shard *shard, struct lq_totals *totals)
{
    lq_totals_take(shard, totals);
    for (unsigned i = 1; i < shard->count; i++) {
        lq_totals_add(totals, &shard->all[i].totals);
    }
}

void lq_metrics_write(struct lq_shard *shard, bool serving, struct lq_writer *out)
{
    struct lq_totals totals;
    sum_up(shard, &totals);
    write_line(
        out, "# HELP lightq_info The software.\n# TYPE lightq_info gauge\nlightq_info{version=\"%s\",node=\"%u\"} 1\n",
        LQ_VERSION_TEXT, (unsigned)shard->service.options->node_id);
    write_metric(out, "gauge", "serving", "1 when clients are served.", serving);
    write_metric(out, "gauge", "shards", "Event loops.", shard->count);
#define X(kind, member, name, sentence) write_metric(out, #kind, name, sentence, totals.counters.member);
    LQ_COUNTERS(X)
#undef X
    if (shard->front != NULL) {
        write_metric(out, "gauge", "client_queued_bytes", "Bytes for clients that were not written yet.",
                     totals.client_queued);
    }
    if (shard->transport != NULL) {
        write_transport(&totals.transport, out);
    }
    if (shard->store != NULL) {
        write_store(&totals.store, out);
    }
    if (shard->host != NULL) {
        write_host(&totals.host, totals.leading, out);
    }
    if (shard->meta != NULL) {
        write_meta(shard->meta, out);
    }
}
