/* storage/io_mem_file.c - a file of the in-memory disk: its bytes as reads show them, its bytes as a power cut leaves
 * them, and the changes between. Called by io_mem.c and io_mem_tree.c, on one thread. The model is in storage/io_mem.h.
 *
 * What a cut leaves of one file under TEAR. The changes since the last sync are c[0..n). Sizes go in order, as in a
 * journal of metadata: those of the first m changes have happened, m by chance. Bytes do not: each sector shows any of
 * the versions it had, by chance, but
 * - a truncation that happened (before m) has happened to all sectors, and
 * - one that did not has left its old blocks in place, so what was written later behind its last block is not seen. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/io_mem_disk.h"

struct lq_mem_page {
    unsigned references;
    uint8_t bytes[LQ_MEM_PAGE_BYTES];
};

uint64_t lq_mem_random_below(struct lq_mem_random *random, uint64_t bound)
{
    random->state += 0x9e3779b97f4a7c15u;
    uint64_t z = random->state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return bound == 0 ? 0 : z % bound;
}

/* ---- content ---- */

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static size_t pages_for(uint64_t size)
{
    return (size_t)((size + LQ_MEM_PAGE_BYTES - 1) / LQ_MEM_PAGE_BYTES);
}

static void page_unref(struct lq_mem_page *page)
{
    if (page != NULL && --page->references == 0) {
        free(page);
    }
}

static struct lq_mem_page *page_ref(struct lq_mem_page *page)
{
    if (page != NULL) {
        page->references++;
    }
    return page;
}

static void content_deinit(struct lq_mem_content *content)
{
    for (size_t i = 0; i < content->page_capacity; i++) {
        page_unref(content->pages[i]);
    }
    free(content->pages);
    *content = (struct lq_mem_content){0};
}

static lightq_status content_reserve(struct lq_mem_content *content, size_t page_count)
{
    if (page_count <= content->page_capacity) {
        return LIGHTQ_OK;
    }
    size_t capacity = page_count + page_count / 2;
    struct lq_mem_page **pages = realloc(content->pages, capacity * sizeof *pages);
    if (pages == NULL) {
        return LIGHTQ_ENOMEM;
    }
    memset(pages + content->page_capacity, 0, (capacity - content->page_capacity) * sizeof *pages);
    content->pages = pages;
    content->page_capacity = capacity;
    return LIGHTQ_OK;
}

/* Page @i, alone and writable; NULL when out of memory. Its slot exists. */
static struct lq_mem_page *content_own_page(struct lq_mem_content *content, size_t i)
{
    struct lq_mem_page *page = content->pages[i];
    if (page != NULL && page->references == 1) {
        return page;
    }
    struct lq_mem_page *own = malloc(sizeof *own);
    if (own == NULL) {
        return NULL;
    }
    own->references = 1;
    if (page != NULL) {
        memcpy(own->bytes, page->bytes, sizeof own->bytes);
        page_unref(page);
    } else {
        memset(own->bytes, 0, sizeof own->bytes);
    }
    content->pages[i] = own;
    return own;
}

static lightq_status content_zero(struct lq_mem_content *content, uint64_t from, uint64_t to)
{
    while (from < to) {
        size_t i = (size_t)(from / LQ_MEM_PAGE_BYTES);
        size_t begin = (size_t)(from % LQ_MEM_PAGE_BYTES);
        size_t size = (size_t)min_u64(LQ_MEM_PAGE_BYTES - begin, to - from);
        from += size;
        if (i >= content->page_capacity || content->pages[i] == NULL) {
            continue;
        }
        struct lq_mem_page *page = content_own_page(content, i);
        if (page == NULL) {
            return LIGHTQ_ENOMEM;
        }
        memset(page->bytes + begin, 0, size);
    }
    return LIGHTQ_OK;
}

static lightq_status content_resize(struct lq_mem_content *content, uint64_t size)
{
    size_t keep = pages_for(size);
    if (size < content->size) {
        lightq_status status = content_zero(content, size, (uint64_t)keep * LQ_MEM_PAGE_BYTES);
        if (status != LIGHTQ_OK) {
            return status;
        }
        for (size_t i = keep; i < content->page_capacity; i++) {
            page_unref(content->pages[i]);
            content->pages[i] = NULL;
        }
    }
    lightq_status status = content_reserve(content, keep);
    if (status == LIGHTQ_OK) {
        content->size = size;
    }
    return status;
}

static lightq_status content_write(struct lq_mem_content *content, uint64_t offset, const uint8_t *bytes, size_t size)
{
    lightq_status status = content_reserve(content, pages_for(offset + size));
    if (status != LIGHTQ_OK) {
        return status;
    }
    for (size_t done = 0; done < size;) {
        uint64_t at = offset + done;
        size_t begin = (size_t)(at % LQ_MEM_PAGE_BYTES);
        size_t piece = (size_t)min_u64(LQ_MEM_PAGE_BYTES - begin, size - done);
        struct lq_mem_page *page = content_own_page(content, (size_t)(at / LQ_MEM_PAGE_BYTES));
        if (page == NULL) {
            return LIGHTQ_ENOMEM;
        }
        memcpy(page->bytes + begin, bytes + done, piece);
        done += piece;
        content->size = max_u64(content->size, offset + done);
    }
    return LIGHTQ_OK;
}

static size_t content_read(const struct lq_mem_content *content, uint64_t offset, uint8_t *bytes, size_t size)
{
    if (offset >= content->size) {
        return 0;
    }
    size = (size_t)min_u64(size, content->size - offset);
    for (size_t done = 0; done < size;) {
        uint64_t at = offset + done;
        size_t begin = (size_t)(at % LQ_MEM_PAGE_BYTES);
        size_t piece = (size_t)min_u64(LQ_MEM_PAGE_BYTES - begin, size - done);
        const struct lq_mem_page *page = content->pages[at / LQ_MEM_PAGE_BYTES];
        if (page != NULL) {
            memcpy(bytes + done, page->bytes + begin, piece);
        } else {
            memset(bytes + done, 0, piece);
        }
        done += piece;
    }
    return size;
}

/* Makes pages [from, to) of @content those of @other, shared. */
static lightq_status content_share(struct lq_mem_content *content, const struct lq_mem_content *other, size_t from,
                                   size_t to)
{
    lightq_status status = content_reserve(content, to);
    if (status != LIGHTQ_OK) {
        return status;
    }
    for (size_t i = from; i < to; i++) {
        struct lq_mem_page *page = i < other->page_capacity ? other->pages[i] : NULL;
        if (page != content->pages[i]) {
            page_unref(content->pages[i]);
            content->pages[i] = page_ref(page);
        }
    }
    return LIGHTQ_OK;
}

static lightq_status content_copy(struct lq_mem_content *content, const struct lq_mem_content *from)
{
    *content = (struct lq_mem_content){0};
    lightq_status status = content_share(content, from, 0, pages_for(from->size));
    if (status == LIGHTQ_OK) {
        content->size = from->size;
    }
    return status;
}

static lightq_status content_apply(struct lq_mem_content *content, const struct lq_mem_change *change)
{
    switch (change->kind) {
    case LQ_MEM_WRITE:
        return content_write(content, change->offset, change->bytes, change->size);
    case LQ_MEM_TRUNCATE:
        return content_resize(content, change->offset);
    case LQ_MEM_EXTEND:
        return content_resize(content, max_u64(content->size, change->offset));
    }
    return LIGHTQ_EINTERNAL;
}

/* ---- changes ---- */

static void changes_clear(struct lq_mem_file *file)
{
    for (size_t i = 0; i < file->change_count; i++) {
        free(file->changes[i].bytes);
    }
    free(file->changes);
    file->changes = NULL;
    file->change_count = 0;
    file->change_capacity = 0;
}

static lightq_status change_remember(struct lq_mem_file *file, struct lq_mem_change change, const void *bytes)
{
    if (file->change_count == file->change_capacity) {
        size_t capacity = file->change_capacity == 0 ? 4 : file->change_capacity * 2;
        struct lq_mem_change *changes = realloc(file->changes, capacity * sizeof *changes);
        if (changes == NULL) {
            return LIGHTQ_ENOMEM;
        }
        file->changes = changes;
        file->change_capacity = capacity;
    }
    if (bytes != NULL) { /* only of a write, which then has some */
        change.bytes = malloc(change.size);
        if (change.bytes == NULL) {
            return LIGHTQ_ENOMEM;
        }
        memcpy(change.bytes, bytes, change.size);
    }
    file->changes[file->change_count++] = change;
    return change.cut_short ? LIGHTQ_OK : content_apply(&file->live, &change);
}

/* ---- what a torn file shows ---- */

struct tear {
    struct lq_mem_content content;
    uint32_t *versions; /* of each sector: how many changes touched it, then how many of them are seen */
    uint32_t *floors;   /* at least so many are seen */
    uint32_t *ceilings; /* at most so many */
    uint64_t sector_count;
    uint64_t size_max; /* the file never was longer */
    size_t sizes_kept; /* m of the head comment */
};

static uint64_t change_end(const struct lq_mem_change *change)
{
    return change->offset + change->size; /* of a truncation or extension: the new size */
}

static uint64_t change_size_after(const struct lq_mem_change *change, uint64_t size)
{
    return change->kind == LQ_MEM_TRUNCATE ? change->offset : max_u64(size, change_end(change));
}

/* The sectors [*first, *end) whose bytes @change sets. */
static void change_sectors(const struct tear *tear, const struct lq_mem_change *change, uint64_t *first, uint64_t *end)
{
    *first = change->offset / LQ_MEM_SECTOR_BYTES;
    switch (change->kind) {
    case LQ_MEM_WRITE:
        *end = (change_end(change) + LQ_MEM_SECTOR_BYTES - 1) / LQ_MEM_SECTOR_BYTES;
        break;
    case LQ_MEM_TRUNCATE:
        *end = tear->sector_count;
        break;
    case LQ_MEM_EXTEND:
        *end = *first;
        break;
    }
}

static void tear_deinit(struct tear *tear)
{
    content_deinit(&tear->content);
    free(tear->versions);
    free(tear->floors);
    free(tear->ceilings);
}

static lightq_status tear_init(struct tear *tear, const struct lq_mem_file *file)
{
    *tear = (struct tear){.size_max = file->durable.size};
    for (size_t i = 0; i < file->change_count; i++) {
        tear->size_max = max_u64(tear->size_max, change_end(&file->changes[i]));
    }
    tear->sector_count = (tear->size_max + LQ_MEM_SECTOR_BYTES - 1) / LQ_MEM_SECTOR_BYTES;
    size_t count = (size_t)tear->sector_count + 1;
    tear->versions = calloc(count, sizeof *tear->versions);
    tear->floors = calloc(count, sizeof *tear->floors);
    tear->ceilings = malloc(count * sizeof *tear->ceilings);
    lightq_status status = content_copy(&tear->content, &file->durable);
    if (status == LIGHTQ_OK) {
        status = content_resize(&tear->content, tear->size_max);
    }
    if (status != LIGHTQ_OK || tear->versions == NULL || tear->floors == NULL || tear->ceilings == NULL) {
        tear_deinit(tear);
        return LIGHTQ_ENOMEM;
    }
    memset(tear->ceilings, 0xff, count * sizeof *tear->ceilings);
    return LIGHTQ_OK;
}

/* Counts the versions of every sector, and bounds them by the truncations. */
static void tear_count(struct tear *tear, const struct lq_mem_file *file)
{
    for (size_t i = 0; i < file->change_count; i++) {
        const struct lq_mem_change *change = &file->changes[i];
        bool is_truncate = change->kind == LQ_MEM_TRUNCATE;
        uint64_t block_end = (uint64_t)pages_for(change->offset) * LQ_MEM_PAGE_BYTES;
        uint64_t first = 0, end = 0;
        change_sectors(tear, change, &first, &end);
        for (uint64_t s = first; s < end; s++) {
            if (is_truncate && i >= tear->sizes_kept && s * LQ_MEM_SECTOR_BYTES >= block_end &&
                tear->ceilings[s] == UINT32_MAX) {
                tear->ceilings[s] = tear->versions[s];
            }
            tear->versions[s]++;
            if (is_truncate && i < tear->sizes_kept) {
                tear->floors[s] = tear->versions[s];
            }
        }
    }
}

/* How much of the un-synced is there: all, nothing, or each piece by chance. All and nothing are made likely: a mixture
 * of whole and missing files finds other mistakes than torn ones. */
enum luck { LUCK_ALL, LUCK_NONE, LUCK_MIXED };

static enum luck luck_draw(struct lq_mem_random *random)
{
    uint64_t draw = lq_mem_random_below(random, 4);
    return draw == 0 ? LUCK_ALL : draw == 1 ? LUCK_NONE : LUCK_MIXED;
}

static void tear_choose(struct tear *tear, enum luck luck, struct lq_mem_random *random)
{
    for (uint64_t s = 0; s < tear->sector_count; s++) {
        uint64_t floor = tear->floors[s];
        uint64_t top = min_u64(tear->versions[s], tear->ceilings[s]);
        assert(floor <= top);
        if (luck == LUCK_MIXED && top > floor) {
            top = floor + lq_mem_random_below(random, top - floor + 1);
        } else if (luck == LUCK_NONE) {
            top = floor;
        }
        tear->versions[s] = (uint32_t)top;
    }
}

static lightq_status tear_apply_sector(struct tear *tear, const struct lq_mem_change *change, uint64_t sector)
{
    uint64_t begin = max_u64(sector * LQ_MEM_SECTOR_BYTES, change->offset);
    uint64_t end = (sector + 1) * LQ_MEM_SECTOR_BYTES;
    if (change->kind == LQ_MEM_TRUNCATE) {
        return content_zero(&tear->content, begin, end);
    }
    end = min_u64(end, change_end(change));
    return content_write(&tear->content, begin, change->bytes + (begin - change->offset), (size_t)(end - begin));
}

static lightq_status tear_apply(struct tear *tear, const struct lq_mem_file *file)
{
    uint64_t size = file->durable.size;
    for (size_t i = 0; i < file->change_count; i++) {
        const struct lq_mem_change *change = &file->changes[i];
        if (i < tear->sizes_kept) {
            size = change_size_after(change, size);
        }
        uint64_t first = 0, end = 0;
        change_sectors(tear, change, &first, &end);
        for (uint64_t s = first; s < end; s++) {
            if (tear->versions[s] == 0) {
                continue;
            }
            tear->versions[s]--;
            lightq_status status = tear_apply_sector(tear, change, s);
            if (status != LIGHTQ_OK) {
                return status;
            }
        }
    }
    return content_resize(&tear->content, size);
}

static lightq_status file_tear(const struct lq_mem_file *file, struct lq_mem_random *random,
                               struct lq_mem_content *content)
{
    struct tear tear;
    lightq_status status = tear_init(&tear, file);
    if (status != LIGHTQ_OK) {
        return status;
    }
    enum luck luck = luck_draw(random);
    tear.sizes_kept = luck == LUCK_ALL    ? file->change_count
                      : luck == LUCK_NONE ? 0
                                          : (size_t)lq_mem_random_below(random, file->change_count + 1);
    tear_count(&tear, file);
    tear_choose(&tear, luck, random);
    status = tear_apply(&tear, file);
    if (status == LIGHTQ_OK) {
        *content = tear.content;
        tear.content = (struct lq_mem_content){0};
    }
    tear_deinit(&tear);
    return status;
}

static lightq_status file_keep(const struct lq_mem_file *file, struct lq_mem_content *content)
{
    lightq_status status = content_copy(content, &file->durable);
    for (size_t i = 0; status == LIGHTQ_OK && i < file->change_count; i++) {
        if (!file->changes[i].cut_short) {
            status = content_apply(content, &file->changes[i]);
        }
    }
    if (status != LIGHTQ_OK) {
        content_deinit(content);
    }
    return status;
}

/* ---- for io_mem.c and io_mem_tree.c ---- */

void lq_mem_file_deinit(struct lq_mem_file *file)
{
    changes_clear(file);
    content_deinit(&file->live);
    content_deinit(&file->durable);
    file->has_lost = false;
}

lightq_status lq_mem_file_copy(struct lq_mem_file *file, const struct lq_mem_file *from)
{
    *file = (struct lq_mem_file){0};
    lightq_status status = content_copy(&file->live, &from->live);
    if (status == LIGHTQ_OK) {
        status = content_copy(&file->durable, &from->live);
    }
    if (status != LIGHTQ_OK) {
        lq_mem_file_deinit(file);
    }
    return status;
}

lightq_status lq_mem_file_write(struct lq_mem_file *file, uint64_t offset, const void *bytes, size_t size,
                                bool cut_short)
{
    if (size == 0) {
        return LIGHTQ_OK;
    }
    struct lq_mem_change change = {.kind = LQ_MEM_WRITE, .cut_short = cut_short, .offset = offset, .size = size};
    return change_remember(file, change, bytes);
}

lightq_status lq_mem_file_truncate(struct lq_mem_file *file, uint64_t size, bool cut_short)
{
    struct lq_mem_change change = {.kind = LQ_MEM_TRUNCATE, .cut_short = cut_short, .offset = size};
    return change_remember(file, change, NULL);
}

lightq_status lq_mem_file_extend(struct lq_mem_file *file, uint64_t size, bool cut_short)
{
    struct lq_mem_change change = {.kind = LQ_MEM_EXTEND, .cut_short = cut_short, .offset = size};
    return change_remember(file, change, NULL);
}

size_t lq_mem_file_read(const struct lq_mem_file *file, uint64_t offset, void *bytes, size_t size)
{
    return content_read(&file->live, offset, bytes, size);
}

lightq_status lq_mem_file_sync(struct lq_mem_file *file)
{
    lightq_status status = LIGHTQ_OK;
    for (size_t i = 0; status == LIGHTQ_OK && i < file->change_count; i++) {
        const struct lq_mem_change *change = &file->changes[i];
        if (file->has_lost || change->kind != LQ_MEM_WRITE) {
            status = content_apply(&file->durable, change);
            continue;
        }
        size_t first = (size_t)(change->offset / LQ_MEM_PAGE_BYTES);
        size_t end = pages_for(min_u64(change_end(change), file->live.size));
        status = content_share(&file->durable, &file->live, first, end);
        file->durable.size = max_u64(file->durable.size, change_end(change));
    }
    if (status == LIGHTQ_OK) {
        assert(file->has_lost || file->durable.size == file->live.size);
        changes_clear(file);
    }
    return status;
}

void lq_mem_file_sync_lost(struct lq_mem_file *file)
{
    file->has_lost = file->has_lost || file->change_count > 0;
    changes_clear(file);
}

lightq_status lq_mem_file_crash(struct lq_mem_file *file, enum lq_io_mem_crash_mode mode, struct lq_mem_random *random)
{
    struct lq_mem_content left = {0};
    lightq_status status = LIGHTQ_OK;
    if (mode == LQ_IO_MEM_LOSE || file->change_count == 0) {
        status = content_copy(&left, &file->durable);
    } else if (mode == LQ_IO_MEM_KEEP) {
        status = file_keep(file, &left);
    } else {
        status = file_tear(file, random, &left);
    }
    struct lq_mem_content live = {0};
    if (status == LIGHTQ_OK) {
        status = content_copy(&live, &left);
    }
    if (status != LIGHTQ_OK) {
        content_deinit(&left);
        return status;
    }
    lq_mem_file_deinit(file);
    file->durable = left;
    file->live = live;
    return LIGHTQ_OK;
}

/* Whether @bytes stand in @page from a multiple of the step on, and go on in @next where the page ends. */
static bool page_has(const struct lq_mem_page *page, const struct lq_mem_page *next, const uint8_t *bytes, size_t size)
{
    uint64_t begin;
    memcpy(&begin, bytes, sizeof begin);
    for (size_t at = 0; at < sizeof page->bytes; at += LQ_MEM_NEEDLE_STEP) {
        uint64_t here;
        memcpy(&here, page->bytes + at, sizeof here);
        size_t piece = (size_t)min_u64(size, sizeof page->bytes - at);
        if (here == begin && memcmp(page->bytes + at, bytes, piece) == 0 &&
            (piece == size || (next != NULL && memcmp(next->bytes, bytes + piece, size - piece) == 0))) {
            return true;
        }
    }
    return false;
}

bool lq_mem_file_durable_has(const struct lq_mem_file *file, const void *bytes, size_t size)
{
    const struct lq_mem_content *content = &file->durable;
    size_t pages = pages_for(content->size);
    assert(size >= LQ_MEM_NEEDLE_STEP && size <= LQ_MEM_NEEDLE_MAX);
    for (size_t i = pages; i-- > 0;) { /* what was written last is asked for most */
        if (content->pages[i] != NULL &&
            page_has(content->pages[i], i + 1 < pages ? content->pages[i + 1] : NULL, bytes, size)) {
            return true;
        }
    }
    return false;
}
