/* A simulated libnvidia-ml.so.1, driven by a line file (see script.c for its grammar).
 *
 * It has the interface of the real library and none of its insides: every answer, return code and fault comes from
 * the file that FAKE_NVML_FILE names, and FAKE_NVML_TRACE logs every call. A question without a line is answered
 * NOT_SUPPORTED. Strict: it aborts on a line that it cannot parse, on an answer of the wrong shape, on a handle that
 * it did not give out and on any use after nvmlShutdown. Here: the session, the system, and all questions whose
 * answer is a text or a number; structures.c has the others.
 */
#define _GNU_SOURCE
#include "fakenvml.h"

#include <stdio.h>
#include <string.h>

/* -- the session ---------------------------------------------------------------------------------------------- */

static struct nvmlDevice_st devices[MAX_GPUS][MAX_MIGS + 1];
static int users, is_shut_down, is_loaded;

static void load(void) {
    if (!is_loaded)
        script_load();
    is_loaded = 1;
}

int ready(const char *function) {
    if (users > 0)
        return 1;
    if (is_shut_down)
        script_abort("%s after nvmlShutdown", function);
    return 0;
}

void check(nvmlDevice_t device, const char *function) {
    if (device < &devices[0][0] || device > &devices[MAX_GPUS - 1][MAX_MIGS])
        script_abort("%s was given a handle that is none", function);
}

static nvmlDevice_t handle(int gpu, int mig) {
    nvmlDevice_t device = &devices[gpu][mig + 1];
    device->gpu = gpu;
    device->mig = mig;
    return device;
}

nvmlReturn_t copy(const char *value, char *out, unsigned int length) {
    if (strlen(value) + 1 > length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(out, value);
    return NVML_SUCCESS;
}

unsigned long long number(const char *value) {
    unsigned long long found;
    script_numbers(value, &found, 1);
    return found;
}

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
    is_loaded = users > 0; /* a new session reads its file again */
    load();
    int code = script_ask(SYSTEM, NO_MIG, NVML_SUCCESS, NULL, flags != 0 ? "nvmlInit/%u" : "nvmlInit", flags);
    if (code == 0)
        users++;
    return (nvmlReturn_t)code;
}

EXPORT nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

EXPORT nvmlReturn_t nvmlShutdown(void) {
    if (!ready(__func__))
        return NVML_ERROR_UNINITIALIZED;
    int code = script_ask(SYSTEM, NO_MIG, NVML_SUCCESS, NULL, "nvmlShutdown");
    is_shut_down = --users == 0;
    return (nvmlReturn_t)code;
}

EXPORT const char *nvmlErrorString(nvmlReturn_t code) {
    static char text[40];
    snprintf(text, sizeof text, "fake error %d", (int)code);
    return text;
}

/* -- the system ------------------------------------------------------------------------------------------------ */

/* Answers before nvmlInit too, as the drivers from 535 do. */
EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length) {
    load();
    const char *value = NULL;
    int code = script_ask(SYSTEM, NO_MIG, NVML_ERROR_NOT_SUPPORTED, &value, "nvmlSystemGetNVMLVersion");
    return code != 0 ? (nvmlReturn_t)code : copy(value, version, length);
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    ASK_SYSTEM(value, "nvmlSystemGetDriverVersion");
    return copy(value, version, length);
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
    ASK_SYSTEM(value, "nvmlSystemGetCudaDriverVersion");
    *version = (int)number(value);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    ASK_SYSTEM(value, "nvmlSystemGetCudaDriverVersion_v2");
    *version = (int)number(value);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    ASK_SYSTEM(value, "nvmlDeviceGetCount");
    *count = (unsigned int)number(value);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    unsigned int count = 0;
    nvmlReturn_t counted = nvmlDeviceGetCount_v2(&count);
    if (counted != NVML_SUCCESS)
        return counted;
    if (index >= count || index >= MAX_GPUS)
        return NVML_ERROR_INVALID_ARGUMENT;
    int code = script_ask((int)index, NO_MIG, NVML_SUCCESS, NULL, "nvmlDeviceGetHandleByIndex");
    if (code == 0)
        *device = handle((int)index, NO_MIG);
    return (nvmlReturn_t)code;
}

/* -- questions with one answer --------------------------------------------------------------------------------- */

#define TEXT(function)                                                                                        \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, char *text, unsigned int length) {                      \
        ASK(value, device, #function);                                                                        \
        return copy(value, text, length);                                                                     \
    }

#define NUMBER(function, type)                                                                                \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, type *answer) {                                         \
        ASK(value, device, #function);                                                                        \
        *answer = (type)number(value);                                                                        \
        return NVML_SUCCESS;                                                                                  \
    }

#define PAIR(function, type)                                                                                  \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, type *first, type *second) {                            \
        ASK(value, device, #function);                                                                        \
        unsigned long long found[2];                                                                          \
        script_numbers(value, found, 2);                                                                      \
        *first = (type)found[0];                                                                              \
        *second = (type)found[1];                                                                             \
        return NVML_SUCCESS;                                                                                  \
    }

/* The argument becomes a part of the question: nvmlDeviceGetClockInfo/1. */
#define NUMBER_BY(function, argument_type, type)                                                              \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, argument_type argument, type *answer) {                 \
        ASK(value, device, #function "/%u", (unsigned int)argument);                                          \
        *answer = (type)number(value);                                                                        \
        return NVML_SUCCESS;                                                                                  \
    }

TEXT(nvmlDeviceGetName)
TEXT(nvmlDeviceGetUUID)
TEXT(nvmlDeviceGetSerial)
TEXT(nvmlDeviceGetVbiosVersion)
TEXT(nvmlDeviceGetBoardPartNumber)
TEXT(nvmlDeviceGetInforomImageVersion)

EXPORT nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version) {
    ASK(value, device, "nvmlDeviceGetGspFirmwareVersion");
    return copy(value, version, 64);
}

NUMBER(nvmlDeviceGetMinorNumber, unsigned int)
NUMBER(nvmlDeviceGetPersistenceMode, nvmlEnableState_t)
NUMBER(nvmlDeviceGetComputeMode, nvmlComputeMode_t)
NUMBER(nvmlDeviceGetMaxMigDeviceCount, unsigned int)
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, nvmlEnableState_t)
NUMBER(nvmlDeviceGetPowerManagementLimit, unsigned int)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned int)
NUMBER(nvmlDeviceGetPowerUsage, unsigned int)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int)
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned int)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned int)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned int)
NUMBER(nvmlDeviceGetPerformanceState, nvmlPstates_t)
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long)
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long)
NUMBER(nvmlDeviceGetNumaNodeId, unsigned int)
NUMBER(nvmlDeviceGetNumGpuCores, unsigned int)
NUMBER(nvmlDeviceGetGpuInstanceId, unsigned int)
NUMBER(nvmlDeviceGetComputeInstanceId, unsigned int)

PAIR(nvmlDeviceGetEccMode, nvmlEnableState_t)
PAIR(nvmlDeviceGetMigMode, unsigned int)
PAIR(nvmlDeviceGetCudaComputeCapability, int)

NUMBER_BY(nvmlDeviceGetTemperature, nvmlTemperatureSensors_t, unsigned int)
NUMBER_BY(nvmlDeviceGetClockInfo, nvmlClockType_t, unsigned int)
NUMBER_BY(nvmlDeviceGetMaxClockInfo, nvmlClockType_t, unsigned int)
NUMBER_BY(nvmlDeviceGetNvLinkState, unsigned int, nvmlEnableState_t)
NUMBER_BY(nvmlDeviceGetNvLinkRemoteDeviceType, unsigned int, nvmlIntNvLinkDeviceType_t)

EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                                nvmlEccCounterType_t counter, unsigned long long *count) {
    ASK(value, device, "nvmlDeviceGetTotalEccErrors/%u/%u", (unsigned int)type, (unsigned int)counter);
    *count = number(value);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t other,
                                                        nvmlGpuTopologyLevel_t *level) {
    check(other, __func__);
    ASK(value, device, "nvmlDeviceGetTopologyCommonAncestor/%d", other->gpu);
    *level = (nvmlGpuTopologyLevel_t)number(value);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t other,
                                           nvmlGpuP2PCapsIndex_t capability, nvmlGpuP2PStatus_t *status) {
    check(other, __func__);
    ASK(value, device, "nvmlDeviceGetP2PStatus/%d/%u", other->gpu, (unsigned int)capability);
    *status = (nvmlGpuP2PStatus_t)number(value);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                        nvmlDevice_t *mig) {
    ASK(value, device, "nvmlDeviceGetMigDeviceHandleByIndex/%u", index);
    *mig = handle(device->gpu, (int)number(value));
    return NVML_SUCCESS;
}

/* -- what a reader of facts has no business to call: logged, and refused ------------------------------------------ */

#define REFUSED(function, ...)                                                                                \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, __VA_ARGS__) {                                          \
        ASK(value, device, #function);                                                                        \
        return NVML_ERROR_NO_PERMISSION;                                                                      \
    }

#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
REFUSED(nvmlDeviceSetPersistenceMode, nvmlEnableState_t mode)
REFUSED(nvmlDeviceSetComputeMode, nvmlComputeMode_t mode)
REFUSED(nvmlDeviceSetEccMode, nvmlEnableState_t mode)
REFUSED(nvmlDeviceSetPowerManagementLimit, unsigned int limit)
REFUSED(nvmlDeviceSetMigMode, unsigned int mode, nvmlReturn_t *status)
REFUSED(nvmlDeviceClearEccErrorCounts, nvmlEccCounterType_t counter)
REFUSED(nvmlDeviceResetNvLinkErrorCounters, unsigned int link)
