/* chaos/net/clock.c - a wall clock that can be set and skewed in one running process: loaded in front of the C library
 * (LD_PRELOAD) by chaos/run. What the file named by LIGHTQ_CLOCK_FILE holds, three numbers of 64 bits of this machine:
 *
 *   0 offset_ns    added to the wall clock
 *   8 skew_ppm     how much faster it runs since
 *   16 since_ns    this moment of the monotonic clock
 *
 * It is mapped, so a change is seen at once. The monotonic clock is never touched, as on a real machine. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S  1000000000
#define NS_PER_US 1000
#define MILLION   1000000

#pragma GCC visibility push(default) /* these replace the C library's */
int clock_gettime(clockid_t clock, struct timespec *out);
int gettimeofday(struct timeval *restrict out, void *restrict zone);
time_t time(time_t *out);
#pragma GCC visibility pop

struct setting {
    int64_t offset_ns, skew_ppm, since_ns;
};

/* A library in front of another one has nowhere else to keep these. Written once, before main. */
static const volatile struct setting *setting;
static int (*real_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("LIGHTQ_CLOCK_FILE");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        void *map = mmap(NULL, sizeof *setting, PROT_READ, MAP_SHARED, fd, 0);
        setting = map != MAP_FAILED ? map : NULL;
        close(fd);
    }
}

/* Other libraries ask for the time before begin() has run. */
static int ask(clockid_t clock, struct timespec *out)
{
    if (real_gettime == NULL) {
        *(void **)(void *)&real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    }
    return real_gettime(clock, out);
}

static int64_t now_ns(clockid_t clock)
{
    struct timespec now;
    ask(clock, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static int64_t wall_ns(clockid_t clock)
{
    int64_t now = now_ns(clock);
    if (setting != NULL) {
        now += setting->offset_ns + (now_ns(CLOCK_MONOTONIC) - setting->since_ns) / MILLION * setting->skew_ppm;
    }
    return now;
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    if (setting == NULL || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) {
        return ask(clock, out);
    }
    int64_t now = wall_ns(clock);
    *out = (struct timespec){.tv_sec = now / NS_PER_S, .tv_nsec = now % NS_PER_S};
    return 0;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    int64_t now = wall_ns(CLOCK_REALTIME);
    (void)zone;
    *out = (struct timeval){.tv_sec = now / NS_PER_S, .tv_usec = now % NS_PER_S / NS_PER_US};
    return 0;
}

time_t time(time_t *out)
{
    time_t now = wall_ns(CLOCK_REALTIME) / NS_PER_S;
    if (out != NULL) {
        *out = now;
    }
    return now;
}
