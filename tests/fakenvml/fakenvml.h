/* What the two halves of the fake share: NVML's types, the session, and how a question is asked. */
#ifndef FAKENVML_H
#define FAKENVML_H

#ifdef USE_REAL_HEADER
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>
#else
#include "nvml_min.h"
#endif
#include "script.h"

#define EXPORT __attribute__((visibility("default")))

struct nvmlDevice_st {
    int gpu, mig;
};

/* Whether NVML is initialised; aborts where it was shut down. */
int ready(const char *function);

/* Aborts on a handle that the fake did not give out. */
void check(nvmlDevice_t device, const char *function);

/* A text into the caller's buffer, or INSUFFICIENT_SIZE. */
nvmlReturn_t copy(const char *value, char *out, unsigned int length);

/* The only number of an answer. */
unsigned long long number(const char *value);

/* What a device is asked and how it answers; the caller returns unless it got an answer. */
#define ASK(value, device, ...)                                                                               \
    const char *value = NULL;                                                                                 \
    do {                                                                                                      \
        if (!ready(__func__))                                                                                 \
            return NVML_ERROR_UNINITIALIZED;                                                                  \
        check(device, __func__);                                                                              \
        int code = script_ask((device)->gpu, (device)->mig, NVML_ERROR_NOT_SUPPORTED, &value, __VA_ARGS__);   \
        if (code != 0)                                                                                        \
            return (nvmlReturn_t)code;                                                                        \
    } while (0)

#define ASK_SYSTEM(value, question)                                                                           \
    const char *value = NULL;                                                                                 \
    do {                                                                                                      \
        if (!ready(__func__))                                                                                 \
            return NVML_ERROR_UNINITIALIZED;                                                                  \
        int code = script_ask(SYSTEM, NO_MIG, NVML_ERROR_NOT_SUPPORTED, &value, question);                    \
        if (code != 0)                                                                                        \
            return (nvmlReturn_t)code;                                                                        \
    } while (0)

#endif
