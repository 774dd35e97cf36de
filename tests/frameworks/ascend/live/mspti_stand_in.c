/* A stand-in for libmspti, libascendcl and libopapi, in C. It is no NPU: `npu_launch` writes down one launch and its
   kernels, as MSPTI 26.0 does. Records come late: so many flushes after their kernel ran. The driver delivers in a thread
   of its own, which calls back while it holds the lock that each record needs. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KERNEL = 2, MEMSET = 6, MEMCPY = 7, NODE_API = 11, KINDS = 13 };

/* As in mspti_activity.h. */
#define RECORD typedef struct __attribute__((packed)) __attribute__((aligned(8)))
typedef struct { uint32_t device, stream; } where_t;
typedef struct { uint32_t process, thread; } thread_t;
RECORD { int32_t kind; uint64_t start, end; where_t ds; uint64_t correlation; const char *type, *name; } kernel_t;
RECORD { int32_t kind; uint64_t start, end; thread_t pt; uint64_t correlation; const char *name; } api_t;
RECORD { int32_t kind; uint32_t what; uint64_t bytes, start, end; where_t ds; uint64_t correlation; uint8_t async; } move_t;

typedef void (*requested_t)(uint8_t **, size_t *, size_t *);
typedef void (*completed_t)(uint8_t *, size_t, size_t);
typedef struct { kernel_t kernel; uint64_t due; } pending_t;

/* What a test sets to have bad weather. */
int npu_lag, npu_drop_every, npu_preloaded, npu_subscribed, npu_before_26, npu_overlaps, npu_no_device;
int npu_fails_synchronize, npu_foreign_device, npu_fence_kernels = 1, npu_devices = 1, npu_silent, npu_number;
const char *npu_soc = "Ascend910B2";
/* What it counts. */
int npu_subscriptions, npu_synchronizations, npu_handed_over, npu_unsubscribed;

static pthread_mutex_t records = PTHREAD_MUTEX_INITIALIZER, tasks = PTHREAD_MUTEX_INITIALIZER;
static requested_t requested;
static completed_t completed;
static uint8_t *buffer;
static size_t capacity, used;
static int enabled[KINDS];
static uint64_t correlation, flushes, launched, clock_ns = 1000;
static pending_t *pending;
static size_t waiting, room;
static int device;

static const char *kept(const char *text) {
    static char *names[4096];
    static int count;
    for (int i = 0; i < count; i++) if (!strcmp(names[i], text)) return names[i];
    return names[count++] = strdup(text);
}

static void hand_over(void) {
    if (!buffer) return;
    npu_handed_over++;
    completed(buffer, capacity, used);
    buffer = NULL;
}

static void put(const void *record, size_t size) {
    size_t most;
    pthread_mutex_lock(&records);
    if (buffer && used >= capacity / 10 * 8) hand_over();
    if (!buffer) { requested(&buffer, &capacity, &most); used = 0; }
    if (buffer && used + size <= capacity) { memcpy(buffer + used, record, size); used += size; }
    pthread_mutex_unlock(&records);
}

static void ran(uint64_t id, const char *kernel, const char *type, int stream, uint64_t ns) {
    kernel_t record = {KERNEL, 0, 0, {npu_foreign_device ? 7 : npu_number, stream}, id, kept(type), kept(kernel)};
    if (!enabled[KERNEL] || npu_silent) return;
    if (!npu_overlaps) clock_ns += 10;
    record.start = clock_ns;
    record.end = clock_ns + ns;
    clock_ns += npu_overlaps ? 1 : ns;
    if (npu_drop_every && ++launched % npu_drop_every == 0) return;
    if (waiting == room) pending = realloc(pending, (room = room * 2 + 64) * sizeof *pending);
    pending[waiting++] = (pending_t){record, flushes + npu_lag};
}

void npu_launch(const char *node, const char *kernel, const char *type, int stream, uint64_t ns, int kernels) {
    pthread_mutex_lock(&tasks);
    for (int i = 0; i < kernels; i++) ran(++correlation, kernel, type, stream, ns);
    api_t api = {NODE_API, 1, 2, {1, 2}, correlation, kept(node)};
    pthread_mutex_unlock(&tasks);
    if (enabled[NODE_API]) put(&api, sizeof api);
}

uint64_t npu_capture(void) { return ++correlation; }
void npu_replay(uint64_t id, const char *kernel, uint64_t ns) {
    pthread_mutex_lock(&tasks);
    ran(id, kernel, "KERNEL_AIVEC", 3, ns);
    pthread_mutex_unlock(&tasks);
}

/* Only a preloaded library is between the program and the runtime, whose calls have numbers then. */
void npu_copy(int kind, uint64_t bytes) {
    if (!npu_preloaded) return;
    move_t move = {MEMCPY, kind, bytes, 5, 6, {0, 0xFFFFFFFF}, ++correlation, 1};
    if (enabled[MEMCPY]) put(&move, sizeof move);
}
void npu_set(uint64_t bytes) {
    if (!npu_preloaded) return;
    move_t move = {MEMSET, 0, bytes, 5, 6, {0, 3}, ++correlation, 0};
    if (enabled[MEMSET]) put(&move, sizeof move);
}

/* libmspti. */

int msptiSubscribe(void **subscriber, void *callback, void *userdata) {
    if (npu_subscribed) return 2;
    npu_subscriptions++;
    npu_subscribed = 1;
    *subscriber = &npu_subscribed;
    return 0;
}
int msptiUnsubscribe(void *subscriber) { npu_subscribed = 0; npu_unsubscribed = 1; return 0; }
int msptiActivityRegisterCallbacks(requested_t r, completed_t c) { requested = r; completed = c; return 0; }
int msptiActivityEnable(int kind) {
    if (kind == NODE_API && npu_before_26) return 1;
    if ((kind == MEMCPY || kind == MEMSET) && !npu_preloaded) return 6;
    enabled[kind] = 1;
    return 0;
}
int msptiActivityDisable(int kind) { enabled[kind] = 0; return 0; }

static void *deliver(void *nothing) {
    size_t left = 0;
    pthread_mutex_lock(&tasks);
    pending_t *found = malloc((waiting + 1) * sizeof *found);
    size_t count = 0;
    for (size_t i = 0; i < waiting; i++) {
        /* In order: what is late delays what is behind it. */
        if (left == 0 && pending[i].due <= flushes) found[count++] = pending[i];
        else pending[left++] = pending[i];
    }
    waiting = left;
    pthread_mutex_unlock(&tasks);
    for (size_t i = 0; i < count; i++) if (!npu_unsubscribed) put(&found[i].kernel, sizeof found[i].kernel);
    free(found);
    return nothing;
}

int msptiActivityFlushAll(uint32_t flag) {
    pthread_t driver;
    pthread_create(&driver, NULL, deliver, NULL);
    pthread_join(driver, NULL);
    flushes++;
    pthread_mutex_lock(&records);
    hand_over();
    pthread_mutex_unlock(&records);
    return 0;
}

/* libascendcl, libnnopbase and libopapi. */

int aclrtGetDeviceCount(uint32_t *count) { *count = npu_devices; return 0; }
const char *aclrtGetSocName(void) { return npu_soc; }
int aclrtGetDevice(int32_t *number) { *number = device; return npu_no_device ? 107002 : 0; }
int aclrtSetDevice(int32_t number) { device = number; return 0; }
int aclrtGetCurrentContext(void **context) { *context = &device; return 0; }
int aclrtSetCurrentContext(void *context) { return context == &device ? 0 : 107002; }
int aclrtSynchronizeDevice(void) { npu_synchronizations++; return npu_fails_synchronize; }
static intptr_t streams = 40;
static int is_stream(void *stream) { return (intptr_t)stream > 40 && (intptr_t)stream <= streams; }
int aclrtCreateStream(void **stream) { *stream = (void *)++streams; return 0; }
int aclrtStreamGetId(void *stream, int32_t *number) { *number = (intptr_t)stream; return !is_stream(stream); }
int aclrtSynchronizeStream(void *stream) { return !is_stream(stream); }
int aclrtMalloc(void **memory, size_t size, int policy) { *memory = calloc(1, size); return 0; }
int aclsysGetCANNVersion(int name, char *version) { strcpy(version, "8.5.0"); return name; }
void *aclCreateTensor(const int64_t *dims, uint64_t n, int dtype, const int64_t *stride, int64_t offset, int format,
                      const int64_t *storage, uint64_t storage_n, void *memory) {
    return dims[0] == 1 && n == 1 && dtype == 0 && stride[0] == 1 && offset == 0 && format == 2 && storage[0] == 1 &&
        storage_n == 1 && memory ? (void *)99 : NULL;
}
int aclnnInplaceOneGetWorkspaceSize(void *tensor, uint64_t *size, void **executor) {
    *size = 512;
    *executor = (void *)55;
    return tensor == (void *)99 ? 0 : 161001;
}
int aclnnInplaceOne(void *workspace, uint64_t size, void *executor, void *stream) {
    if (!workspace || size != 512 || executor != (void *)55 || !is_stream(stream)) return 161001;
    npu_launch("aclnnInplaceOne_OnesLikeAiCore_OnesLike", "OnesLike_0123456789abcdef0123456789abcdef_high_performance_210000000",
               "KERNEL_AIVEC", (intptr_t)stream, 3, npu_fence_kernels);
    return 0;
}
