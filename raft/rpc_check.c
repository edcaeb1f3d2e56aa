/* raft/rpc_check.c - the ranges and shapes of Raft's messages and configurations, checked the same way before sending
 * and after receiving. See rpc_check.h and, for what is drawn, rpc.c. */
#include "raft/rpc_check.h"

#include <inttypes.h>
#include <string.h>

#include "client/base/buf.h"

enum { CONFIGURATION_FORMAT = 1, CONFIGURATION_ALIGN = 8 };

_Static_assert((int)RAFT_STANDBY == (int)LQ_ROLE_STANDBY && (int)RAFT_VOTER == (int)LQ_ROLE_VOTER &&
                   (int)RAFT_SPARE == (int)LQ_ROLE_SPARE,
               "roles are libraft's");

static bool replica_id_valid(lq_replica_id id)
{
    uint32_t node = lq_replica_node(id);
    return node >= 1 && node <= LQ_NODES_MAX && lq_replica_make(node, lq_replica_incarnation(id)) == id;
}

lightq_status lq_rpc_check_ids(const char *what, lq_replica_id from, lq_replica_id to, struct lq_err *err)
{
    if (!replica_id_valid(from)) {
        return lq_err_set(err, LIGHTQ_EPROTO, "%s: %" PRIu64 " is not a replica id (sender)", what, from);
    }
    if (!replica_id_valid(to)) {
        return lq_err_set(err, LIGHTQ_EPROTO, "%s: %" PRIu64 " is not a replica id (receiver)", what, to);
    }
    return LIGHTQ_OK;
}

lightq_status lq_rpc_check_nodes(const char *what, lq_replica_id from, lq_replica_id to, uint32_t node, uint32_t self,
                                 struct lq_err *err)
{
    lightq_status status = lq_rpc_check_ids(what, from, to, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (lq_replica_node(from) != node) {
        return lq_err_set(err, LIGHTQ_EPROTO, "%s: says it is from node %" PRIu32 ", but came from node %" PRIu32, what,
                          lq_replica_node(from), node);
    }
    if (lq_replica_node(to) != self) {
        return lq_err_set(err, LIGHTQ_EPROTO, "%s: is for node %" PRIu32 ", but came to node %" PRIu32, what,
                          lq_replica_node(to), self);
    }
    return LIGHTQ_OK;
}

lightq_status lq_rpc_check_range(const char *what, const char *name, uint64_t value, uint64_t least, struct lq_err *err)
{
    if (value < least || value > LQ_RPC_INDEX_MAX) {
        return lq_err_set(err, LIGHTQ_EPROTO, "%s: %s %" PRIu64 " is out of range", what, name, value);
    }
    return LIGHTQ_OK;
}

lightq_status lq_rpc_check_place(const char *what, const char *name, uint64_t index, uint64_t place_term, uint64_t term,
                                 struct lq_err *err)
{
    lightq_status status = lq_rpc_check_range(what, name, index, 0, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if ((index == 0) != (place_term == 0)) {
        return lq_err_set(err, LIGHTQ_EPROTO, "%s: %s %" PRIu64 " with term %" PRIu64 ": only one of them is 0", what,
                          name, index, place_term);
    }
    if (place_term > term) {
        return lq_err_set(err, LIGHTQ_EPROTO, "%s: %s has term %" PRIu64 ", above the message's %" PRIu64, what, name,
                          place_term, term);
    }
    return LIGHTQ_OK;
}

lightq_status lq_rpc_check_version(const char *what, unsigned version, unsigned expected, struct lq_err *err)
{
    if (version != expected) {
        return lq_err_set(err, LIGHTQ_EPROTO, "%s: message version %u is not %u", what, version, expected);
    }
    return LIGHTQ_OK;
}

lightq_status lq_rpc_check_append(const char *what, const struct raft_append_entries *append, struct lq_err *err)
{
    lightq_status status = lq_rpc_check_version(what, append->version, LQ_RPC_VERSION_APPEND, err);
    if (status == LIGHTQ_OK) {
        status = lq_rpc_check_range(what, "term", append->term, 1, err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_rpc_check_place(what, "previous index", append->prev_log_index, append->prev_log_term, append->term,
                                    err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_rpc_check_range(what, "commit index", append->leader_commit, 0, err);
    }
    return status;
}

lightq_status lq_rpc_check_append_result(const char *what, const struct raft_append_entries_result *result,
                                         struct lq_err *err)
{
    lightq_status status = lq_rpc_check_version(what, result->version, LQ_RPC_VERSION_APPEND_RESULT, err);
    if (status == LIGHTQ_OK) {
        status = lq_rpc_check_range(what, "term", result->term, 0, err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_rpc_check_range(what, "rejected index", result->rejected, 0, err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_rpc_check_range(what, "last index", result->last_log_index, 0, err);
    }
    return status;
}

static lightq_status check_vote(const char *what, const struct raft_request_vote *vote, struct lq_err *err)
{
    lightq_status status = lq_rpc_check_version(what, vote->version, LQ_RPC_VERSION_VOTE, err);
    if (status == LIGHTQ_OK) {
        status = lq_rpc_check_range(what, "term", vote->term, 1, err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_rpc_check_place(what, "last index", vote->last_log_index, vote->last_log_term, vote->term, err);
    }
    return status;
}

static lightq_status check_vote_result(const char *what, const struct raft_request_vote_result *result,
                                       struct lq_err *err)
{
    lightq_status status = lq_rpc_check_version(what, result->version, LQ_RPC_VERSION_VOTE_RESULT, err);
    return status == LIGHTQ_OK ? lq_rpc_check_range(what, "term", result->term, 0, err) : status;
}

static lightq_status check_install(const char *what, const struct raft_install_snapshot *install, struct lq_err *err)
{
    lightq_status status = lq_rpc_check_version(what, install->version, LQ_RPC_VERSION_INSTALL, err);
    if (status == LIGHTQ_OK) {
        status = lq_rpc_check_range(what, "term", install->term, 1, err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_rpc_check_range(what, "last index", install->last_index, 1, err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_rpc_check_place(what, "last index", install->last_index, install->last_term, install->term, err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_rpc_check_range(what, "configuration index", install->conf_index, 1, err);
    }
    if (status == LIGHTQ_OK && install->conf_index > install->last_index) {
        status = lq_err_set(err, LIGHTQ_EPROTO, "%s: its configuration's index %llu is above its last index %llu", what,
                            install->conf_index, install->last_index);
    }
    return status;
}

static lightq_status check_timeout_now(const char *what, const struct raft_timeout_now *now, struct lq_err *err)
{
    lightq_status status = lq_rpc_check_version(what, now->version, LQ_RPC_VERSION_TIMEOUT_NOW, err);
    if (status == LIGHTQ_OK) {
        status = lq_rpc_check_range(what, "term", now->term, 1, err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_rpc_check_place(what, "last index", now->last_log_index, now->last_log_term, now->term, err);
    }
    return status;
}

lightq_status lq_rpc_check_message(const struct raft_message *message, struct lq_err *err)
{
    switch (message->type) {
    case RAFT_APPEND_ENTRIES:
        return lq_rpc_check_append("AppendEntries", &message->append_entries, err);
    case RAFT_APPEND_ENTRIES_RESULT:
        return lq_rpc_check_append_result("AppendEntries result", &message->append_entries_result, err);
    case RAFT_REQUEST_VOTE:
        return check_vote("RequestVote", &message->request_vote, err);
    case RAFT_REQUEST_VOTE_RESULT:
        return check_vote_result("RequestVote result", &message->request_vote_result, err);
    case RAFT_INSTALL_SNAPSHOT:
        return check_install("checkpoint", &message->install_snapshot, err);
    case RAFT_TIMEOUT_NOW:
        return check_timeout_now("TimeoutNow", &message->timeout_now, err);
    }
    return lq_err_set(err, LIGHTQ_EPROTO, "%d is not a Raft message", (int)message->type);
}

lightq_status lq_rpc_check_piece(const struct lq_rpc_piece *piece, struct lq_err *err)
{
    const char *what = "checkpoint";
    const struct lq_checkpoint *checkpoint = &piece->checkpoint;
    lightq_status status = lq_rpc_check_range(what, "next offset", checkpoint->next_offset, 0, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (checkpoint->state_size > LQ_CHECKPOINT_BYTES_MAX) {
        return lq_err_set(err, LIGHTQ_EPROTO, "%s: a state of %" PRIu64 " bytes is above the limit of %u", what,
                          checkpoint->state_size, LQ_CHECKPOINT_BYTES_MAX);
    }
    if (piece->size > LQ_CHECKPOINT_PIECE_BYTES || piece->offset > checkpoint->state_size ||
        piece->size > checkpoint->state_size - piece->offset || (piece->size == 0 && checkpoint->state_size != 0)) {
        return lq_err_set(err, LIGHTQ_EPROTO,
                          "%s: no piece of a state of %" PRIu64 " bytes has %" PRIu32 " bytes at %" PRIu64, what,
                          checkpoint->state_size, piece->size, piece->offset);
    }
    if (piece->last != (piece->offset + piece->size == checkpoint->state_size)) {
        return lq_err_set(err, LIGHTQ_EPROTO,
                          "%s: the piece at %" PRIu64 " of %" PRIu64 " bytes is %smarked as the last", what,
                          piece->offset, checkpoint->state_size, piece->last ? "" : "not ");
    }
    if (piece->offset == 0) {
        return lq_rpc_check_configuration(checkpoint->configuration, checkpoint->configuration_size, NULL, err);
    }
    if (checkpoint->configuration_size != 0) {
        return lq_err_set(err, LIGHTQ_EPROTO, "%s: a configuration in a piece that is not the first", what);
    }
    return LIGHTQ_OK;
}

/* ---- configurations ---- */

static lightq_status read_server(struct lq_reader *reader, struct lq_server *server, const char **address,
                                 struct lq_err *err)
{
    server->id = lq_read_u64(reader);
    size_t left = lq_reader_left(reader);
    const uint8_t *text = reader->bytes + reader->position;
    const uint8_t *end = left == 0 ? NULL : memchr(text, 0, left);
    if (end == NULL) {
        return lq_err_set(err, LIGHTQ_EPROTO, "configuration: ends within a server");
    }
    if (end - text > LQ_HOST_BYTES_MAX) {
        return lq_err_set(err, LIGHTQ_EPROTO, "configuration: an address is longer than %d bytes", LQ_HOST_BYTES_MAX);
    }
    *address = (const char *)lq_read_bytes(reader, (size_t)(end - text) + 1);
    uint8_t role = lq_read_u8(reader);
    if (reader->failed) {
        return lq_err_set(err, LIGHTQ_EPROTO, "configuration: ends within a server");
    }
    if (!replica_id_valid(server->id)) {
        return lq_err_set(err, LIGHTQ_EPROTO, "configuration: %" PRIu64 " is not a replica id", server->id);
    }
    if (role > LQ_ROLE_SPARE) {
        return lq_err_set(err, LIGHTQ_EPROTO, "configuration: %u is not a role", role);
    }
    server->role = (enum lq_role)role;
    return LIGHTQ_OK;
}

lightq_status lq_rpc_check_configuration(const void *bytes, size_t size, struct lq_servers *servers, struct lq_err *err)
{
    struct lq_servers found = {.count = 0};
    const char *addresses[LQ_SERVERS_MAX];
    _Static_assert(sizeof found.at / sizeof found.at[0] == LQ_SERVERS_MAX, "lq_servers holds every configuration");

    if (size == 0 || size > LQ_CONFIGURATION_BYTES_MAX || size % CONFIGURATION_ALIGN != 0) {
        return lq_err_set(err, LIGHTQ_EPROTO, "configuration: %zu is not the size of one", size);
    }
    struct lq_reader reader = lq_reader_of(bytes, size);
    uint8_t format = lq_read_u8(&reader);
    uint64_t count = lq_read_u64(&reader);
    if (format != CONFIGURATION_FORMAT || count == 0 || count > LQ_SERVERS_MAX) {
        return lq_err_set(err, LIGHTQ_EPROTO, "configuration: format %u with %" PRIu64 " servers", format, count);
    }
    for (; found.count < count; found.count++) {
        struct lq_server *server = &found.at[found.count];
        lightq_status status = read_server(&reader, server, &addresses[found.count], err);
        if (status != LIGHTQ_OK) {
            return status;
        }
        for (unsigned i = 0; i < found.count; i++) {
            if (found.at[i].id == server->id || strcmp(addresses[i], addresses[found.count]) == 0) {
                return lq_err_set(err, LIGHTQ_EPROTO,
                                  "configuration: replica %" PRIu64 " or its address is there twice", server->id);
            }
        }
    }
    if (lq_reader_left(&reader) >= CONFIGURATION_ALIGN) {
        return lq_err_set(err, LIGHTQ_EPROTO, "configuration: bytes behind its end");
    }
    while (lq_reader_left(&reader) > 0) {
        if (lq_read_u8(&reader) != 0) {
            return lq_err_set(err, LIGHTQ_EPROTO, "configuration: its padding is not zero");
        }
    }
    if (servers != NULL) {
        *servers = found;
    }
    return LIGHTQ_OK;
}
