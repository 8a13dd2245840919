/* A stand-in for libnvidia-ml.so.1 that says what a scenario tells it to.
 *
 * It has the driver's prototypes, so that the unmodified nvidia-ml-py calls it: structures, buffers
 * and error codes cross the same boundary. The scenario is a text file, named by FAKE_NVML, of lines
 * `key value`, which `build.py` makes of JSON; it is read anew at each call, so a test may change it
 * while a process looks.
 *
 * Keys: `count N`; `D.name TEXT` of device D, `D.uuid`, `D.util`, `D.mem.total`, `D.mem.reserved`,
 * `D.mem.used`, `D.pcie.tx`, `D.pcie.rx` (counted bytes), `D.pcie.tx_kb`, `D.pcie.rx_kb` (rates),
 * `D.width`, `D.width_max`, `D.gen`, `D.gen_max`, `D.reasons` (bits), `D.power_mw`,
 * `D.power_limit_mw`, `D.energy_mj`, `D.temp`, `D.procs pid:bytes,pid:?`, `D.mps` the same of clients
 * of MPS, `D.gpm PERCENT` (the device counts; `D.gpm.I` of instance I), `D.mig N` (it has room for N
 * slices; 0 where it could be partitioned and is not). A slice is device `D.m.I`, with
 * `D.m.I.instance`, and is absent where its instance is. `D.lost 1`: it has fallen off the bus, and
 * every call for it or a slice of it says so. `init CODE` refuses to begin. What a scenario does not
 * mention is not supported. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, LOST = 15 };
#define HANDLES_MAX 256

typedef struct { char key[32]; } Handle;
static Handle handles[HANDLES_MAX];
static int handles_count;

static int look(const char *key, char *value, size_t size) {
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[512];
    size_t length = strlen(key);
    int found = 0;
    while (file && !found && fgets(line, sizeof line, file)) {
        if (!strncmp(line, key, length) && line[length] == ' ') {
            line[strcspn(line, "\n")] = 0;
            snprintf(value, size, "%s", line + length + 1);
            found = 1;
        }
    }
    if (file) fclose(file);
    return found;
}

static int is_lost(const Handle *device) {
    char key[64], value[8];
    snprintf(key, sizeof key, "%.*s.lost", (int)strcspn(device->key, "."), device->key);
    return look(key, value, sizeof value);
}

static int say(const Handle *device, const char *what, char *value, size_t size) {
    char key[64];
    snprintf(key, sizeof key, "%s.%s", device->key, what);
    return !is_lost(device) && look(key, value, size);
}

static int refusal(const Handle *device) { return is_lost(device) ? LOST : NOT_SUPPORTED; }

static int number(const Handle *device, const char *what, unsigned long long *value) {
    char text[64];
    if (!say(device, what, text, sizeof text)) return refusal(device);
    *value = strtoull(text, NULL, 10);
    return SUCCESS;
}

static int small(const Handle *device, const char *what, unsigned *value) {
    unsigned long long wide;
    int code = number(device, what, &wide);
    if (!code) *value = (unsigned)wide;
    return code;
}

static int text(const Handle *device, const char *what, char *value, unsigned size) {
    return say(device, what, value, size) ? SUCCESS : refusal(device);
}

static Handle *handle_of(const char *key) {
    for (int i = 0; i < handles_count; i++)
        if (!strcmp(handles[i].key, key)) return &handles[i];
    if (handles_count == HANDLES_MAX) return NULL;
    snprintf(handles[handles_count].key, sizeof handles[0].key, "%s", key);
    return &handles[handles_count++];
}

int nvmlInitWithFlags(unsigned flags) {
    char code[16];
    (void)flags;
    return look("init", code, sizeof code) ? atoi(code) : SUCCESS;
}
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "stand-in error"; }

int nvmlDeviceGetCount_v2(unsigned *count) {
    char value[16];
    *count = look("count", value, sizeof value) ? (unsigned)atoi(value) : 0;
    return SUCCESS;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle **device) {
    char key[32];
    snprintf(key, sizeof key, "%u", index);
    *device = handle_of(key);
    return is_lost(*device) ? LOST : SUCCESS;
}
int nvmlDeviceGetName(Handle *d, char *v, unsigned n) { return text(d, "name", v, n); }
int nvmlDeviceGetUUID(Handle *d, char *v, unsigned n) { return text(d, "uuid", v, n); }

int nvmlDeviceGetUtilizationRates(Handle *device, unsigned *gpu_and_memory) {
    gpu_and_memory[1] = 0;
    return small(device, "util", &gpu_and_memory[0]);
}

typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;

int nvmlDeviceGetMemoryInfo(Handle *device, Memory *memory) {
    unsigned long long reserved = 0;
    if (number(device, "mem.total", &memory->total)) return refusal(device);
    number(device, "mem.used", &memory->used);
    number(device, "mem.reserved", &reserved);
    memory->used += reserved; /* the older call cannot tell them apart */
    memory->free = memory->total - memory->used;
    return SUCCESS;
}
#ifndef WITHOUT_V2
int nvmlDeviceGetMemoryInfo_v2(Handle *device, MemoryV2 *memory) {
    if (memory->version != 0x02000028) return INVALID;
    if (number(device, "mem.total", &memory->total)) return refusal(device);
    number(device, "mem.used", &memory->used);
    number(device, "mem.reserved", &memory->reserved);
    memory->free = memory->total - memory->used - memory->reserved;
    return SUCCESS;
}
#endif

typedef struct {
    unsigned field, scope; long long timestamp, latency; unsigned type; int code;
    unsigned long long value;
} Field;

int nvmlDeviceGetFieldValues(Handle *device, int count, Field *fields) {
    if (is_lost(device)) return LOST;
    for (int i = 0; i < count; i++) {
        const char *what = fields[i].field == 197 ? "pcie.tx" : "pcie.rx";
        fields[i].code = number(device, what, &fields[i].value);
        fields[i].type = 3;
        if (fields[i].field != 197 && fields[i].field != 198) fields[i].code = NOT_SUPPORTED;
    }
    return SUCCESS;
}
int nvmlDeviceGetPcieThroughput(Handle *device, unsigned counter, unsigned *kb_per_s) {
    return small(device, counter ? "pcie.rx_kb" : "pcie.tx_kb", kb_per_s);
}

int nvmlDeviceGetCurrPcieLinkWidth(Handle *d, unsigned *v) { return small(d, "width", v); }
int nvmlDeviceGetMaxPcieLinkWidth(Handle *d, unsigned *v) { return small(d, "width_max", v); }
int nvmlDeviceGetCurrPcieLinkGeneration(Handle *d, unsigned *v) { return small(d, "gen", v); }
int nvmlDeviceGetMaxPcieLinkGeneration(Handle *d, unsigned *v) { return small(d, "gen_max", v); }
int nvmlDeviceGetPowerUsage(Handle *d, unsigned *v) { return small(d, "power_mw", v); }
int nvmlDeviceGetEnforcedPowerLimit(Handle *d, unsigned *v) { return small(d, "power_limit_mw", v); }
int nvmlDeviceGetTotalEnergyConsumption(Handle *d, unsigned long long *v) {
    return number(d, "energy_mj", v);
}
int nvmlDeviceGetCurrentClocksEventReasons(Handle *d, unsigned long long *v) {
    return number(d, "reasons", v);
}

typedef struct { unsigned version, sensor; int temperature; } Temperature;

#ifndef WITHOUT_V2
int nvmlDeviceGetTemperatureV(Handle *device, Temperature *asked) {
    unsigned value = 0;
    int code = small(device, "temp", &value);
    asked->temperature = (int)value;
    return asked->sensor ? INVALID : code;
}
#endif
int nvmlDeviceGetTemperature(Handle *device, unsigned sensor, unsigned *value) {
    return sensor ? INVALID : small(device, "temp", value);
}

typedef struct { unsigned pid; unsigned long long used; unsigned gpu, compute; } Process;

static int processes(Handle *device, const char *key, unsigned *count, Process *found) {
    char list[512], *at = list, *rest;
    unsigned room = *count, seen = 0;
    if (!say(device, key, list, sizeof list)) return refusal(device);
    for (char *one = strtok_r(at, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
        if (found && seen < room) {
            char *bytes = strchr(one, ':') + 1;
            found[seen].pid = (unsigned)atoi(one);
            found[seen].used = *bytes == '?' ? ~0ull : strtoull(bytes, NULL, 10);
            found[seen].gpu = found[seen].compute = ~0u;
        }
        seen++;
    }
    *count = seen;
    return seen > room ? INSUFFICIENT_SIZE : SUCCESS;
}
int nvmlDeviceGetComputeRunningProcesses_v3(Handle *d, unsigned *n, Process *p) {
    return processes(d, "procs", n, p);
}
int nvmlDeviceGetMPSComputeRunningProcesses_v3(Handle *d, unsigned *n, Process *p) {
    return processes(d, "mps", n, p);
}

/* Slices. */

int nvmlDeviceGetMigMode(Handle *device, unsigned *current, unsigned *pending) {
    unsigned long long slices;
    int code = number(device, "mig", &slices);
    if (code) return code;
    *current = *pending = slices > 0;
    return SUCCESS;
}
int nvmlDeviceGetMaxMigDeviceCount(Handle *d, unsigned *v) { return small(d, "mig", v); }
int nvmlDeviceGetMigDeviceHandleByIndex(Handle *device, unsigned index, Handle **slice) {
    char key[48], instance[16];
    Handle asked;
    snprintf(key, sizeof key, "%s.m.%u", device->key, index);
    snprintf(asked.key, sizeof asked.key, "%s", key);
    if (!say(&asked, "instance", instance, sizeof instance))
        return is_lost(device) ? LOST : NOT_FOUND;
    *slice = handle_of(key);
    return SUCCESS;
}
int nvmlDeviceGetGpuInstanceId(Handle *d, unsigned *v) { return small(d, "instance", v); }

/* Counts of busy multiprocessors: a sample notes whose it is, the scenario what was between two. */

typedef struct { Handle *device; int instance; } Sample;
static int samples_live;
int fake_nvml_samples_live(void) { return samples_live; }

typedef struct { unsigned version, is_supported; } Support;
int nvmlGpmQueryDeviceSupport(Handle *device, Support *support) {
    char value[32], key[64];
    snprintf(key, sizeof key, "%s.gpm", device->key);
    support->is_supported = look(key, value, sizeof value);
    return is_lost(device) ? LOST : SUCCESS;
}
int nvmlGpmSampleAlloc(Sample **sample) {
    *sample = calloc(1, sizeof **sample);
    samples_live++;
    return SUCCESS;
}
int nvmlGpmSampleFree(Sample *sample) { free(sample); samples_live--; return SUCCESS; }
int nvmlGpmSampleGet(Handle *device, Sample *sample) {
    sample->device = device;
    sample->instance = -1;
    return is_lost(device) ? LOST : SUCCESS;
}
int nvmlGpmMigSampleGet(Handle *device, unsigned instance, Sample *sample) {
    sample->device = device;
    sample->instance = (int)instance;
    return is_lost(device) ? LOST : SUCCESS;
}

typedef struct { unsigned id; int code; double value; const char *names[3]; } Metric;
typedef struct { unsigned version, count; Sample *first, *second; Metric metrics[477]; } Asked;

int nvmlGpmMetricsGet(Asked *asked) {
    char key[32], value[32];
    Sample *sample = asked->second;
    if (!asked->first->device || asked->first->device != sample->device) return INVALID;
    if (sample->instance < 0) snprintf(key, sizeof key, "gpm");
    else snprintf(key, sizeof key, "gpm.%d", sample->instance);
    if (asked->metrics[0].id != 2 || !say(sample->device, key, value, sizeof value)) {
        asked->metrics[0].code = NOT_SUPPORTED;
        return SUCCESS;
    }
    asked->metrics[0].code = SUCCESS;
    asked->metrics[0].value = strtod(value, NULL);
    return SUCCESS;
}
