/* A stand-in for libmspti that does what 26.0.0 does while it is loaded: it opens libraries of CANN, and aborts if one of
   these is missing. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void open_kin(void) {
    static const char *kin[] = {"libascendalog.so", "libprofapi.so"};
    char path[4096];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/lib64/%s", getenv("ASCEND_HOME_PATH"), kin[i]);
        if (!dlopen(path, RTLD_LAZY)) abort();
    }
}
