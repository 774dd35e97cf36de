/* A stand-in for libcupti, in C. It is no GPU: `launch` writes down one launch and its kernel, as CUPTI 13.0 does.
   Unlike the stand-in in Python it calls back as CUPTI does, from code without the GIL, while it holds a lock that
   every other function of it takes. */
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

typedef void (*requested_t)(uint8_t **, size_t *, size_t *);
typedef void (*completed_t)(void *, uint32_t, uint8_t *, size_t, size_t);
enum { MAX_LIMIT_REACHED = 12, QUEUE_EMPTY = 26, RUNTIME = 5, KERNEL = 10, EXTERNAL = 39 };
enum { CALL_BYTES = 40, KERNEL_BYTES = 216, EXTERNAL_KINDS = 6, DEEPEST = 64 };
/* CUpti_ActivityExternalCorrelation. */
typedef struct { int32_t kind, external_kind; uint64_t id; uint32_t correlation, reserved; } external_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static requested_t requested;
static completed_t completed;
static uint8_t *buffer;
static size_t capacity, used, dropped;
static int enabled[64];
static uint32_t correlation;
static uint64_t written;
static _Thread_local uint64_t pushed[EXTERNAL_KINDS][DEEPEST];
static _Thread_local int depth[EXTERNAL_KINDS];

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

static void deliver(void) {
    if (buffer) completed(NULL, 0, buffer, capacity, used);
    buffer = NULL;
}

static void put(const uint8_t *record, size_t size) {
    size_t most;
    if (buffer && used + size > capacity) deliver();
    if (!buffer) {
        requested(&buffer, &capacity, &most);
        used = 0;
        if (!buffer) { dropped++; return; }
    }
    memcpy(buffer + used, record, size);
    used += size;
}

void launch(void) {
    uint8_t call[CALL_BYTES] = {0}, kernel[KERNEL_BYTES] = {0};
    uint64_t times[2];
    pthread_mutex_lock(&lock);
    if (enabled[KERNEL] && enabled[RUNTIME]) {
        correlation++;
        times[0] = times[1] = now();
        *(int32_t *)kernel = KERNEL;
        memcpy(kernel + 16, times, 16);
        memcpy(kernel + 92, &correlation, 4);
        *(int32_t *)call = RUNTIME;
        memcpy(call + 8, times, 16);
        memcpy(call + 32, &correlation, 4);
        put(kernel, sizeof kernel);
        for (int kind = 0; enabled[EXTERNAL] && kind < EXTERNAL_KINDS; kind++) {
            if (!depth[kind]) continue;
            external_t external = {EXTERNAL, kind, pushed[kind][depth[kind] - 1], correlation, 0};
            put((uint8_t *)&external, sizeof external);
        }
        put(call, sizeof call);
        written++;
    }
    pthread_mutex_unlock(&lock);
}

uint64_t launches(void) { return written; }

int cuptiGetVersion(uint32_t *version) { *version = 130001; return 0; }
int cuptiGetTimestamp(uint64_t *time) { *time = now(); return 0; }
int cuptiGetResultString(int status, const char **text) { *text = "STAND_IN_ERROR"; return 0; }

int cuptiActivityRegisterCallbacks(requested_t r, completed_t c) { requested = r; completed = c; return 0; }

static int switched(int kind, int on) {
    pthread_mutex_lock(&lock);
    enabled[kind] = on;
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuptiActivityEnable(int kind) { return switched(kind, 1); }
int cuptiActivityDisable(int kind) { return switched(kind, 0); }

int cuptiActivityFlushAll(uint32_t flag) {
    pthread_mutex_lock(&lock);
    deliver();
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *number) {
    pthread_mutex_lock(&lock);
    *number = dropped;
    dropped = 0;
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuptiActivityPushExternalCorrelationId(int kind, uint64_t id) {
    pthread_mutex_lock(&lock);
    pushed[kind][depth[kind]++] = id;
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuptiActivityPopExternalCorrelationId(int kind, uint64_t *last) {
    if (!depth[kind]) return QUEUE_EMPTY;
    pthread_mutex_lock(&lock);
    depth[kind]--;
    if (last) *last = pushed[kind][depth[kind]];
    pthread_mutex_unlock(&lock);
    return 0;
}

static size_t size_of(int32_t kind) {
    return kind == KERNEL ? KERNEL_BYTES : kind == EXTERNAL ? sizeof(external_t) : CALL_BYTES;
}

int cuptiActivityGetNextRecord(uint8_t *start, size_t size, uint8_t **record) {
    *record = *record ? *record + size_of(*(int32_t *)*record) : start;
    return *record < start + size ? 0 : MAX_LIMIT_REACHED;
}
