/* The questions to NVML whose answer is a structure or a list, and the layouts of those. */
#define _GNU_SOURCE
#include "fakenvml.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The layouts that the driver and its Python binding agree on; both headers have to pass. */
_Static_assert(sizeof(nvmlMemory_v2_t) == 40 && offsetof(nvmlMemory_v2_t, total) == 8, "memory v2");
_Static_assert(sizeof(nvmlMemory_t) == 24 && offsetof(nvmlMemory_t, used) == 16, "memory v1");
_Static_assert(sizeof(nvmlBAR1Memory_t) == 24, "bar1");
_Static_assert(sizeof(nvmlPciInfo_t) == 68 && offsetof(nvmlPciInfo_t, busId) == 36, "pci");
_Static_assert(offsetof(nvmlPciInfo_t, pciDeviceId) == 28, "pci device id");
_Static_assert(sizeof(nvmlProcessInfo_t) == 24 && offsetof(nvmlProcessInfo_t, usedGpuMemory) == 8, "process");
_Static_assert(sizeof(nvmlFieldValue_t) == 40 && offsetof(nvmlFieldValue_t, nvmlReturn) == 28, "field");
_Static_assert(offsetof(nvmlFieldValue_t, value) == 32, "field value");
_Static_assert(sizeof(nvmlDeviceAttributes_t) == 40, "attributes");
_Static_assert(offsetof(nvmlDeviceAttributes_t, gpuInstanceSliceCount) == 24, "attributes slices");
_Static_assert(sizeof(nvmlGpuFabricInfo_t) == 28 && offsetof(nvmlGpuFabricInfo_t, state) == 24, "fabric v1");
_Static_assert(sizeof(nvmlGpuFabricInfo_v2_t) == 36, "fabric v2");
_Static_assert(sizeof(nvmlGpuFabricInfo_v3_t) == 40, "fabric v3");
_Static_assert(offsetof(nvmlGpuFabricInfo_v3_t, state) == 28, "fabric v3 state");
_Static_assert(offsetof(nvmlGpuFabricInfo_v3_t, healthSummary) == 36, "fabric v3 health");
_Static_assert(sizeof(nvmlDeviceAddressingMode_t) == 8, "addressing mode");
_Static_assert(sizeof(nvmlTemperature_t) == 12 && offsetof(nvmlTemperature_t, temperature) == 8, "temperature");
_Static_assert(sizeof(nvmlUtilization_t) == 8, "utilization");

/* "total reserved free used" in bytes. The old structure counts what is reserved as used. */
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    ASK(value, device, "nvmlDeviceGetMemoryInfo");
    unsigned long long found[4];
    script_numbers(value, found, 4);
    memory->total = found[0];
    memory->free = found[2];
    memory->used = found[1] + found[3];
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    ASK(value, device, "nvmlDeviceGetMemoryInfo");
    if (memory->version != 0x02000028)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    unsigned long long found[4];
    script_numbers(value, found, 4);
    memory->total = found[0];
    memory->reserved = found[1];
    memory->free = found[2];
    memory->used = found[3];
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory) {
    ASK(value, device, "nvmlDeviceGetBAR1MemoryInfo");
    memory->bar1Total = number(value);
    memory->bar1Free = memory->bar1Total;
    memory->bar1Used = 0;
    return NVML_SUCCESS;
}

/* "0000:06:00.0 0x2BB510DE 0x204E10DE": address, device and vendor, subsystem. */
static nvmlReturn_t fill_pci(const char *value, nvmlPciInfo_t *pci) {
    unsigned int function;
    memset(pci, 0, sizeof *pci);
    if (sscanf(value, "%x:%x:%x.%x %x %x", &pci->domain, &pci->bus, &pci->device, &function, &pci->pciDeviceId,
               &pci->pciSubSystemId) != 6)
        script_abort("a PCI address and two identifiers were wanted, the answer is: %s", value);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xffff,
             pci->bus & 0xff, pci->device & 0xff);
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    ASK(value, device, "nvmlDeviceGetPciInfo");
    return fill_pci(value, pci);
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
                                                        nvmlPciInfo_t *pci) {
    ASK(value, device, "nvmlDeviceGetNvLinkRemotePciInfo/%u", link);
    return fill_pci(value, pci);
}

/* "pid:bytes pid:bytes"; "pid:-" where the memory of a process cannot be known. */
static nvmlReturn_t list_processes(const char *value, unsigned int *count, nvmlProcessInfo_t *processes) {
    unsigned int found = 0, room = *count;
    char *text = strdup(value), *rest = NULL;
    for (char *part = strtok_r(text, " ", &rest); part != NULL; part = strtok_r(NULL, " ", &rest), found++) {
        unsigned int pid;
        int end = 0;
        if (sscanf(part, "%u:%n", &pid, &end) != 1 || end == 0)
            script_abort("pid:bytes was wanted, the answer is: %s", value);
        if (found >= room)
            continue;
        processes[found].pid = pid;
        processes[found].usedGpuMemory = strcmp(part + end, "-") == 0 ? ~0ULL : number(part + end);
        processes[found].gpuInstanceId = processes[found].computeInstanceId = ~0U;
    }
    free(text);
    *count = found;
    return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

#define PROCESSES(function, question, type)                                                                   \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, unsigned int *count, type *processes) {                 \
        ASK(value, device, question);                                                                         \
        return list_processes(value, count, (nvmlProcessInfo_t *)processes);                                  \
    }

PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "nvmlDeviceGetComputeRunningProcesses", nvmlProcessInfo_v2_t)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "nvmlDeviceGetComputeRunningProcesses", nvmlProcessInfo_t)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, "nvmlDeviceGetGraphicsRunningProcesses", nvmlProcessInfo_v2_t)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "nvmlDeviceGetGraphicsRunningProcesses", nvmlProcessInfo_t)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, "nvmlDeviceGetMPSComputeRunningProcesses",
          nvmlProcessInfo_v2_t)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, "nvmlDeviceGetMPSComputeRunningProcesses",
          nvmlProcessInfo_t)

/* "corrected uncorrected pending failed" */
EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected,
                                              unsigned int *uncorrected, unsigned int *pending,
                                              unsigned int *failed) {
    ASK(value, device, "nvmlDeviceGetRemappedRows");
    unsigned long long found[4];
    script_numbers(value, found, 4);
    *corrected = (unsigned int)found[0];
    *uncorrected = (unsigned int)found[1];
    *pending = (unsigned int)found[2];
    *failed = (unsigned int)found[3];
    return NVML_SUCCESS;
}

/* "state status clique uuid health": the cluster's UUID as 32 hexadecimal digits. */
static nvmlReturn_t fill_fabric(const char *value, nvmlGpuFabricInfo_t *fabric, unsigned int *health) {
    unsigned int state, status, clique;
    char uuid[33];
    if (sscanf(value, "%u %u %u %32s %u", &state, &status, &clique, uuid, health) != 5 || strlen(uuid) != 32)
        script_abort("state, status, clique, cluster and health were wanted, the answer is: %s", value);
    for (int i = 0; i < 16; i++) {
        unsigned int byte;
        if (sscanf(uuid + 2 * i, "%2x", &byte) != 1)
            script_abort("a UUID of 32 digits was wanted, the answer is: %s", value);
        fabric->clusterUuid[i] = (unsigned char)byte;
    }
    fabric->status = (nvmlReturn_t)status;
    fabric->cliqueId = clique;
    fabric->state = (unsigned char)state;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *fabric) {
    ASK(value, device, "nvmlDeviceGetGpuFabricInfo");
    unsigned int health;
    return fill_fabric(value, fabric, &health);
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *fabric) {
    ASK(value, device, "nvmlDeviceGetGpuFabricInfo");
    if (fabric->version != 0x02000024 && fabric->version != 0x03000028)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlGpuFabricInfo_t plain;
    fill_fabric(value, &plain, &fabric->healthMask);
    memcpy(fabric->clusterUuid, plain.clusterUuid, sizeof plain.clusterUuid);
    fabric->status = plain.status;
    fabric->cliqueId = plain.cliqueId;
    fabric->state = plain.state;
    if (fabric->version == 0x03000028)
        fabric->healthSummary = fabric->healthMask == 0 ? 1 : 2;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetAddressingMode(nvmlDevice_t device, nvmlDeviceAddressingMode_t *mode) {
    ASK(value, device, "nvmlDeviceGetAddressingMode");
    if (mode->version != 0x01000008)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    mode->value = (unsigned int)number(value);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature) {
    ASK(value, device, "nvmlDeviceGetTemperature/%u", (unsigned int)temperature->sensorType);
    if (temperature->version != 0x0100000c)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    temperature->temperature = (int)number(value);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates) {
    ASK(value, device, "nvmlDeviceGetUtilizationRates");
    unsigned long long found[2];
    script_numbers(value, found, 2);
    rates->gpu = (unsigned int)found[0];
    rates->memory = (unsigned int)found[1];
    return NVML_SUCCESS;
}

/* "slices of the GPU, slices of compute, MiB" */
EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes) {
    ASK(value, device, "nvmlDeviceGetAttributes");
    unsigned long long found[3];
    script_numbers(value, found, 3);
    memset(attributes, 0, sizeof *attributes);
    attributes->gpuInstanceSliceCount = (unsigned int)found[0];
    attributes->computeInstanceSliceCount = (unsigned int)found[1];
    attributes->memorySizeMB = found[2];
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values) {
    if (!ready(__func__))
        return NVML_ERROR_UNINITIALIZED;
    check(device, __func__);
    for (int i = 0; i < count; i++) {
        const char *value = NULL;
        int code = script_ask(device->gpu, device->mig, NVML_ERROR_NOT_SUPPORTED, &value,
                              "nvmlDeviceGetFieldValues/%u", values[i].fieldId);
        values[i].nvmlReturn = (nvmlReturn_t)code;
        values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
        values[i].value.ullVal = code == 0 ? number(value) : 0;
        if (code == NVML_ERROR_GPU_IS_LOST)
            return NVML_ERROR_GPU_IS_LOST;
    }
    return NVML_SUCCESS;
}
