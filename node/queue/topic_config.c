/* node/queue/topic_config.c - see topic_config.h. */
#include "node/queue/topic_config.h"

#include <assert.h>
#include <string.h>

#define X(...) LQ_CONF_ROW(struct lq_topic_config, __VA_ARGS__)
static const struct lq_conf_option rows[] = {LQ_TOPIC_OPTIONS(X)};
#undef X

#define ROW_COUNT (sizeof rows / sizeof rows[0])

const struct lq_conf_table lq_topic_config_table = LQ_CONF_TABLE("topic", rows);

_Static_assert(ROW_COUNT < 64, "each topic option has a bit in a mask");
_Static_assert(sizeof(struct lq_topic_config) == ROW_COUNT * sizeof(uint64_t), "every topic option is a uint64_t");

static uint64_t value_of(const struct lq_topic_config *config, size_t row)
{
    uint64_t value;
    memcpy(&value, (const uint8_t *)config + rows[row].field, sizeof value);
    return value;
}

void lq_topic_config_init(struct lq_topic_config *config)
{
    lightq_status status = lq_conf_init(&lq_topic_config_table, config);
    assert(status == LIGHTQ_OK); /* no strings: nothing is allocated */
    (void)status;
}

uint64_t lq_topic_config_bit(const char *name)
{
    const struct lq_conf_option *option = lq_conf_find(&lq_topic_config_table, name);
    return option == NULL ? 0 : UINT64_C(1) << (option - rows);
}

bool lq_topic_config_knows(uint64_t mask)
{
    return mask >> ROW_COUNT == 0;
}

bool lq_topic_config_merge(struct lq_topic_config *config, const struct lq_topic_config *from, uint64_t mask)
{
    bool differs = false;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        uint64_t value = value_of(from, i);
        if ((mask >> i & 1) != 0 && value != value_of(config, i)) {
            memcpy((uint8_t *)config + rows[i].field, &value, sizeof value);
            differs = true;
        }
    }
    return differs;
}

void lq_topic_config_encode(const struct lq_topic_config *config, struct lq_writer *writer)
{
    lq_write_u8(writer, ROW_COUNT);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        lq_write_u64(writer, value_of(config, i));
    }
}

lightq_status lq_topic_config_decode(struct lq_reader *reader, struct lq_topic_config *config)
{
    lq_topic_config_init(config);
    size_t count = lq_read_u8(reader);
    if (count > ROW_COUNT) {
        return LIGHTQ_EVERSION;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t value = lq_read_u64(reader);
        if (reader->failed || value < rows[i].least || value > rows[i].most) {
            return LIGHTQ_ECORRUPT;
        }
        memcpy((uint8_t *)config + rows[i].field, &value, sizeof value);
    }
    return reader->failed ? LIGHTQ_ECORRUPT : LIGHTQ_OK;
}
