/* A stand-in for libmspti that does what the real one does while it is loaded: it opens libraries of CANN, and crashes if
   one is missing. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void open_kin(void) {
    static const char *kin[] = {"libascendcl.so", "libhccl.so", "libascendalog.so", "libascend_hal.so", "libprofapi.so"};
    char path[4096];
    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "%s/lib64/%s", getenv("ASCEND_HOME_PATH"), kin[i]);
        if (!dlopen(path, RTLD_LAZY)) abort();
    }
}
