/* A stand-in for libnvidia-ml.so.1 in which MIG instances live: they are made, listed and unmade.
 *
 * It has the driver's prototypes, so that the unmodified nvidia-ml-py calls it, and the driver's
 * rules: nothing overlaps, no more compute slices than there are, nothing in use is destroyed. Its
 * world is a text file, named by FAKE_MIG, that each call reads and a change writes anew, so that
 * several processes see one machine. Lines of the file, words apart by one space:
 *
 *   gpu INDEX NAME MIB SLICES MODE PENDING NEEDS_RESET   NAME without spaces; MODE 0, 1, or - for none
 *   profile INDEX KIND ID SLICES MAX SM MIB SIZE NAME START,START,...
 *   gi INDEX ID PROFILE_ID START SIZE SERIAL
 *   ci INDEX GI ID SLICES
 *   proc INDEX PID GI                                    GI ? where the driver does not say
 *   next NUMBER                                          the next serial
 *   fail CALL CODE                                       this call fails with this code
 *   old                                                  a driver without names of profiles
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
    RESET_REQUIRED = 16, IN_USE = 19, INSUFFICIENT_RESOURCES = 23
};
#define MAX 256
#define NOBODY 0xffffffffu

typedef struct { unsigned index, mib, slices, pending, resets; char mode, name[64]; } Gpu;
typedef struct {
    unsigned gpu, kind, id, slices, most, sm, mib, size, starts[16], starts_count;
    char name[32];
} Profile;
typedef struct { unsigned gpu, id, profile, start, size, serial; } Instance;
typedef struct { unsigned gpu, gi, id, slices; } Compute;
typedef struct { unsigned gpu, pid, gi; } Running;
typedef struct { char call[64]; int code; } Failure;
typedef struct { char kind; unsigned gpu, gi, ci; } Handle;

static Gpu gpus[16];
static Profile profiles[MAX];
static Instance instances[MAX];
static Compute computes[MAX];
static Running runnings[MAX];
static Failure failures[16];
static unsigned gpus_n, profiles_n, instances_n, computes_n, runnings_n, failures_n, next_serial;
static int is_old;

static Handle handles[4 * MAX];
static unsigned handles_n;

/* --- the world ------------------------------------------------------------------------------- */

static void read_profile(const char *line) {
    Profile *p = &profiles[profiles_n];
    char starts[128] = "", *rest;
    if (sscanf(line, "profile %u %u %u %u %u %u %u %u %31s %127s", &p->gpu, &p->kind, &p->id,
               &p->slices, &p->most, &p->sm, &p->mib, &p->size, p->name, starts) != 10) return;
    p->starts_count = 0;
    for (char *one = strtok_r(starts, ",", &rest); one; one = strtok_r(NULL, ",", &rest))
        p->starts[p->starts_count++] = (unsigned)atoi(one);
    profiles_n++;
}

static void read_line(const char *line) {
    Gpu *g = &gpus[gpus_n];
    Instance *i = &instances[instances_n];
    Compute *c = &computes[computes_n];
    Running *r = &runnings[runnings_n];
    Failure *f = &failures[failures_n];
    char gi[16];
    if (sscanf(line, "gpu %u %63s %u %u %c %u %u", &g->index, g->name, &g->mib, &g->slices,
               &g->mode, &g->pending, &g->resets) == 7) gpus_n++;
    else if (!strncmp(line, "profile ", 8)) read_profile(line);
    else if (sscanf(line, "gi %u %u %u %u %u %u", &i->gpu, &i->id, &i->profile, &i->start,
                    &i->size, &i->serial) == 6) instances_n++;
    else if (sscanf(line, "ci %u %u %u %u", &c->gpu, &c->gi, &c->id, &c->slices) == 4) computes_n++;
    else if (sscanf(line, "proc %u %u %15s", &r->gpu, &r->pid, gi) == 3) {
        r->gi = *gi == '?' ? NOBODY : (unsigned)atoi(gi);
        runnings_n++;
    } else if (sscanf(line, "fail %63s %d", f->call, &f->code) == 2) failures_n++;
    else if (!strncmp(line, "old", 3)) is_old = 1;
    else sscanf(line, "next %u", &next_serial);
}

/* Read the world; the code that this call is to fail with, if any. */
static int look(const char *call) {
    const char *path = getenv("FAKE_MIG");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[512];
    gpus_n = profiles_n = instances_n = computes_n = runnings_n = failures_n = 0;
    next_serial = 1;
    is_old = 0;
    while (file && fgets(line, sizeof line, file)) read_line(line);
    if (file) fclose(file);
    for (unsigned k = 0; k < failures_n; k++)
        if (!strcmp(failures[k].call, call)) return failures[k].code;
    return SUCCESS;
}

static void write_profile(FILE *file, const Profile *p) {
    fprintf(file, "profile %u %u %u %u %u %u %u %u %s ", p->gpu, p->kind, p->id, p->slices, p->most,
            p->sm, p->mib, p->size, p->name);
    for (unsigned s = 0; s < p->starts_count; s++)
        fprintf(file, "%s%u", s ? "," : "", p->starts[s]);
    fputc('\n', file);
}

static int keep(void) {
    char path[512];
    FILE *file;
    snprintf(path, sizeof path, "%s.new", getenv("FAKE_MIG"));
    file = fopen(path, "w");
    if (!file) return INVALID;
    for (unsigned k = 0; k < gpus_n; k++)
        fprintf(file, "gpu %u %s %u %u %c %u %u\n", gpus[k].index, gpus[k].name, gpus[k].mib,
                gpus[k].slices, gpus[k].mode, gpus[k].pending, gpus[k].resets);
    for (unsigned k = 0; k < profiles_n; k++) write_profile(file, &profiles[k]);
    for (unsigned k = 0; k < instances_n; k++)
        fprintf(file, "gi %u %u %u %u %u %u\n", instances[k].gpu, instances[k].id,
                instances[k].profile, instances[k].start, instances[k].size, instances[k].serial);
    for (unsigned k = 0; k < computes_n; k++)
        fprintf(file, "ci %u %u %u %u\n", computes[k].gpu, computes[k].gi, computes[k].id,
                computes[k].slices);
    for (unsigned k = 0; k < runnings_n; k++) {
        if (runnings[k].gi == NOBODY)
            fprintf(file, "proc %u %u ?\n", runnings[k].gpu, runnings[k].pid);
        else
            fprintf(file, "proc %u %u %u\n", runnings[k].gpu, runnings[k].pid, runnings[k].gi);
    }
    for (unsigned k = 0; k < failures_n; k++)
        fprintf(file, "fail %s %d\n", failures[k].call, failures[k].code);
    if (is_old) fputs("old\n", file);
    fprintf(file, "next %u\n", next_serial);
    fclose(file);
    return rename(path, getenv("FAKE_MIG")) ? INVALID : SUCCESS;
}

static Handle *handle(char kind, unsigned gpu, unsigned gi, unsigned ci) {
    for (unsigned k = 0; k < handles_n; k++) {
        Handle *h = &handles[k];
        if (h->kind == kind && h->gpu == gpu && h->gi == gi && h->ci == ci) return h;
    }
    if (handles_n == 4 * MAX) abort();
    handles[handles_n] = (Handle){kind, gpu, gi, ci};
    return &handles[handles_n++];
}

static Gpu *gpu_of(const Handle *h) {
    for (unsigned k = 0; k < gpus_n; k++) if (gpus[k].index == h->gpu) return &gpus[k];
    return NULL;
}
static Profile *profile_of(unsigned gpu, unsigned id) {
    for (unsigned k = 0; k < profiles_n; k++)
        if (profiles[k].gpu == gpu && profiles[k].id == id) return &profiles[k];
    return NULL;
}
static Instance *instance_of(unsigned gpu, unsigned id) {
    for (unsigned k = 0; k < instances_n; k++)
        if (instances[k].gpu == gpu && instances[k].id == id) return &instances[k];
    return NULL;
}
static int runs(unsigned gpu, unsigned gi) {
    for (unsigned k = 0; k < runnings_n; k++)
        if (runnings[k].gpu == gpu && (gi == NOBODY || runnings[k].gi == gi)) return 1;
    return 0;
}
static unsigned computes_of(unsigned gpu, unsigned gi, unsigned *slices) {
    unsigned found = 0;
    *slices = 0;
    for (unsigned k = 0; k < computes_n; k++)
        if (computes[k].gpu == gpu && computes[k].gi == gi) { found++; *slices += computes[k].slices; }
    return found;
}

/* --- devices ---------------------------------------------------------------------------------- */

int nvmlInitWithFlags(unsigned flags) { (void)flags; return look("nvmlInit"); }
int nvmlInit_v2(void) { return look("nvmlInit"); }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "stand-in error"; }

int nvmlDeviceGetCount_v2(unsigned *count) {
    int code = look("nvmlDeviceGetCount");
    *count = gpus_n;
    return code;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle **device) {
    int code = look("nvmlDeviceGetHandleByIndex");
    *device = handle('d', index, 0, 0);
    return code ? code : gpu_of(*device) ? SUCCESS : INVALID;
}
int nvmlDeviceGetName(Handle *device, char *name, unsigned size) {
    int code = look("nvmlDeviceGetName");
    if (!code) snprintf(name, size, "%s", gpu_of(device)->name);
    return code;
}
int nvmlDeviceGetUUID(Handle *device, char *uuid, unsigned size) {
    int code = look("nvmlDeviceGetUUID");
    Instance *i = instance_of(device->gpu, device->gi);
    if (device->kind == 'm' && i)
        snprintf(uuid, size, "MIG-00000000-0000-0000-%04u-%06u%06u", device->gpu, i->serial,
                 device->ci);
    else snprintf(uuid, size, "GPU-00000000-0000-0000-0000-%012u", device->gpu);
    return code;
}

typedef struct { unsigned long long total, free, used; } Memory;
int nvmlDeviceGetMemoryInfo(Handle *device, Memory *memory) {
    int code = look("nvmlDeviceGetMemoryInfo");
    memory->total = (unsigned long long)gpu_of(device)->mib << 20;
    memory->free = memory->total;
    memory->used = 0;
    return code;
}

typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } Process;
int nvmlDeviceGetComputeRunningProcesses_v3(Handle *device, unsigned *count, Process *found) {
    int code = look("nvmlDeviceGetComputeRunningProcesses");
    unsigned room = *count, seen = 0;
    if (code) return code;
    for (unsigned k = 0; k < runnings_n; k++) {
        if (runnings[k].gpu != device->gpu) continue;
        if (found && seen < room) found[seen] = (Process){runnings[k].pid, 0, runnings[k].gi, 0};
        seen++;
    }
    *count = seen;
    return seen > room ? INSUFFICIENT_SIZE : SUCCESS;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(Handle *device, unsigned *count, Process *found) {
    (void)device; (void)found;
    *count = 0;
    return SUCCESS;
}

/* --- MIG mode ---------------------------------------------------------------------------------- */

int nvmlDeviceGetMigMode(Handle *device, unsigned *current, unsigned *pending) {
    int code = look("nvmlDeviceGetMigMode");
    Gpu *g = gpu_of(device);
    if (code || g->mode == '-') return code ? code : NOT_SUPPORTED;
    *current = g->mode == '1';
    *pending = g->pending;
    return SUCCESS;
}
int nvmlDeviceSetMigMode(Handle *device, unsigned mode, int *activation) {
    int code = look("nvmlDeviceSetMigMode");
    Gpu *g = gpu_of(device);
    if (code || g->mode == '-') return code ? code : NOT_SUPPORTED;
    for (unsigned k = 0; k < instances_n; k++) if (instances[k].gpu == g->index) return IN_USE;
    if (runs(g->index, NOBODY)) return IN_USE;
    g->pending = mode;
    *activation = g->resets && g->mode != (char)('0' + mode) ? RESET_REQUIRED : SUCCESS;
    if (*activation == SUCCESS) g->mode = (char)('0' + mode);
    return keep();
}

/* --- profiles ---------------------------------------------------------------------------------- */

typedef struct {
    unsigned id, p2p, slices, most, sm, copies, decoders, encoders, jpegs, ofas;
    unsigned long long mib;
} Info;
typedef struct {
    unsigned version, id, p2p, slices, most, sm, copies, decoders, encoders, jpegs, ofas;
    unsigned long long mib;
    char name[96];
} InfoV2;
typedef struct { unsigned start, size; } Place;

static Profile *profile_at(const Handle *device, unsigned kind) {
    for (unsigned k = 0; k < profiles_n; k++)
        if (profiles[k].gpu == device->gpu && profiles[k].kind == kind) return &profiles[k];
    return NULL;
}
int nvmlDeviceGetGpuInstanceProfileInfo(Handle *device, unsigned kind, Info *info) {
    int code = look("nvmlDeviceGetGpuInstanceProfileInfo");
    Profile *p = profile_at(device, kind);
    if (code || !p) return code ? code : NOT_SUPPORTED;
    *info = (Info){p->id, 0, p->slices, p->most, p->sm, 1, 0, 0, 0, 0, p->mib};
    return SUCCESS;
}
int nvmlDeviceGetGpuInstanceProfileInfoV(Handle *device, unsigned kind, InfoV2 *info) {
    int code = look("nvmlDeviceGetGpuInstanceProfileInfoV");
    Profile *p = profile_at(device, kind);
    if (code || !p || is_old) return code ? code : NOT_SUPPORTED;
    if (info->version != (sizeof(InfoV2) | 2u << 24)) return INVALID;
    *info = (InfoV2){info->version, p->id, 0, p->slices, p->most, p->sm, 1, 0, 0, 0, 0, p->mib, ""};
    snprintf(info->name, sizeof info->name, "MIG %s", p->name);
    return SUCCESS;
}
int nvmlDeviceGetGpuInstancePossiblePlacements_v2(Handle *device, unsigned id, Place *places,
                                                  unsigned *count) {
    int code = look("nvmlDeviceGetGpuInstancePossiblePlacements");
    Profile *p = profile_of(device->gpu, id);
    unsigned room = *count;
    if (code || !p) return code ? code : INVALID;
    *count = p->starts_count;
    if (!places) return SUCCESS;
    if (p->starts_count > room) return INSUFFICIENT_SIZE;
    for (unsigned s = 0; s < p->starts_count; s++) places[s] = (Place){p->starts[s], p->size};
    return SUCCESS;
}

/* Why a profile cannot have an instance there, or 0. */
static int refused(const Gpu *g, const Profile *p, unsigned start, unsigned size) {
    unsigned slices = p->slices, same = 0, is_place = 0;
    for (unsigned s = 0; s < p->starts_count; s++) is_place |= p->starts[s] == start;
    if (!is_place || size != p->size) return INVALID;
    for (unsigned k = 0; k < instances_n; k++) {
        Instance *i = &instances[k];
        if (i->gpu != g->index) continue;
        if (i->start < start + size && start < i->start + i->size) return INSUFFICIENT_RESOURCES;
        slices += profile_of(g->index, i->profile)->slices;
        same += i->profile == p->id;
    }
    return slices > g->slices || same >= p->most ? INSUFFICIENT_RESOURCES : SUCCESS;
}
int nvmlDeviceGetGpuInstanceRemainingCapacity(Handle *device, unsigned id, unsigned *count) {
    int code = look("nvmlDeviceGetGpuInstanceRemainingCapacity");
    Gpu *g = gpu_of(device);
    Profile *p = profile_of(device->gpu, id);
    if (code || g->mode != '1' || !p) return code ? code : NOT_SUPPORTED;
    *count = 0;
    for (unsigned s = 0; s < p->starts_count; s++)
        *count += refused(g, p, p->starts[s], p->size) == SUCCESS;
    return SUCCESS;
}

/* --- instances --------------------------------------------------------------------------------- */

int nvmlDeviceCreateGpuInstanceWithPlacement(Handle *device, unsigned id, const Place *place,
                                             Handle **made) {
    int code = look("nvmlDeviceCreateGpuInstanceWithPlacement");
    Gpu *g = gpu_of(device);
    Profile *p = profile_of(device->gpu, id);
    if (code || g->mode != '1' || !p) return code ? code : NOT_SUPPORTED;
    if ((code = refused(g, p, place->start, place->size))) return code;
    unsigned own = 1;
    while (instance_of(g->index, own)) own++;
    instances[instances_n++] =
        (Instance){g->index, own, p->id, place->start, place->size, next_serial++};
    *made = handle('g', g->index, own, 0);
    return keep();
}
int nvmlGpuInstanceDestroy(Handle *instance) {
    int code = look("nvmlGpuInstanceDestroy");
    Instance *i = instance_of(instance->gpu, instance->gi);
    unsigned slices;
    if (code || !i) return code ? code : NOT_FOUND;
    if (computes_of(i->gpu, i->id, &slices) || runs(i->gpu, i->id)) return IN_USE;
    *i = instances[--instances_n];
    return keep();
}
int nvmlDeviceGetGpuInstances(Handle *device, unsigned id, Handle **found, unsigned *count) {
    int code = look("nvmlDeviceGetGpuInstances");
    unsigned seen = 0;
    if (code) return code;
    for (unsigned k = 0; k < instances_n; k++)
        if (instances[k].gpu == device->gpu && instances[k].profile == id)
            found[seen++] = handle('g', device->gpu, instances[k].id, 0);
    *count = seen;
    return SUCCESS;
}
int nvmlDeviceGetGpuInstanceById(Handle *device, unsigned id, Handle **instance) {
    int code = look("nvmlDeviceGetGpuInstanceById");
    *instance = handle('g', device->gpu, id, 0);
    return code ? code : instance_of(device->gpu, id) ? SUCCESS : NOT_FOUND;
}
typedef struct { Handle *device; unsigned id, profile; Place place; } InstanceInfo;
int nvmlGpuInstanceGetInfo(Handle *instance, InstanceInfo *info) {
    int code = look("nvmlGpuInstanceGetInfo");
    Instance *i = instance_of(instance->gpu, instance->gi);
    if (code || !i) return code ? code : NOT_FOUND;
    *info = (InstanceInfo){handle('d', i->gpu, 0, 0), i->id, i->profile, {i->start, i->size}};
    return SUCCESS;
}

/* --- compute instances ------------------------------------------------------------------------- */

static const unsigned COMPUTE_SLICES[] = {1, 2, 3, 4, 7};
typedef struct { unsigned id, slices, most, sm, copies, decoders, encoders, jpegs, ofas; } ComputeInfo;

int nvmlGpuInstanceGetComputeInstanceProfileInfo(Handle *instance, unsigned kind, unsigned engines,
                                                 ComputeInfo *info) {
    int code = look("nvmlGpuInstanceGetComputeInstanceProfileInfo");
    Instance *i = instance_of(instance->gpu, instance->gi);
    if (code || !i) return code ? code : NOT_FOUND;
    Profile *p = profile_of(i->gpu, i->profile);
    if (engines || kind > 4 || COMPUTE_SLICES[kind] > p->slices) return NOT_SUPPORTED;
    unsigned slices = COMPUTE_SLICES[kind];
    *info = (ComputeInfo){kind, slices, p->slices / slices, p->sm * slices / p->slices, 1, 0, 0, 0, 0};
    return SUCCESS;
}
int nvmlGpuInstanceCreateComputeInstance(Handle *instance, unsigned id, Handle **made) {
    int code = look("nvmlGpuInstanceCreateComputeInstance");
    Instance *i = instance_of(instance->gpu, instance->gi);
    unsigned slices, count;
    if (code || !i || id > 4) return code ? code : NOT_FOUND;
    count = computes_of(i->gpu, i->id, &slices);
    if (slices + COMPUTE_SLICES[id] > profile_of(i->gpu, i->profile)->slices)
        return INSUFFICIENT_RESOURCES;
    computes[computes_n++] = (Compute){i->gpu, i->id, count, COMPUTE_SLICES[id]};
    *made = handle('c', i->gpu, i->id, count);
    return keep();
}
int nvmlGpuInstanceGetComputeInstances(Handle *instance, unsigned id, Handle **found,
                                       unsigned *count) {
    int code = look("nvmlGpuInstanceGetComputeInstances");
    unsigned seen = 0;
    if (code || id > 4) return code ? code : INVALID;
    for (unsigned k = 0; k < computes_n; k++)
        if (computes[k].gpu == instance->gpu && computes[k].gi == instance->gi
            && computes[k].slices == COMPUTE_SLICES[id])
            found[seen++] = handle('c', instance->gpu, instance->gi, computes[k].id);
    *count = seen;
    return SUCCESS;
}
int nvmlComputeInstanceDestroy(Handle *compute) {
    int code = look("nvmlComputeInstanceDestroy");
    if (code) return code;
    if (runs(compute->gpu, compute->gi)) return IN_USE;
    for (unsigned k = 0; k < computes_n; k++)
        if (computes[k].gpu == compute->gpu && computes[k].gi == compute->gi
            && computes[k].id == compute->ci) {
            computes[k] = computes[--computes_n];
            return keep();
        }
    return NOT_FOUND;
}

/* --- MIG devices: a compute instance each, with gaps where there is none ------------------------ */

int nvmlDeviceGetMaxMigDeviceCount(Handle *device, unsigned *count) {
    int code = look("nvmlDeviceGetMaxMigDeviceCount");
    *count = gpu_of(device)->slices;
    return code;
}
int nvmlDeviceGetMigDeviceHandleByIndex(Handle *device, unsigned index, Handle **found) {
    int code = look("nvmlDeviceGetMigDeviceHandleByIndex");
    unsigned seen = 0;
    if (code) return code;
    for (unsigned k = 0; k < computes_n; k++)
        if (computes[k].gpu == device->gpu && seen++ == index) {
            *found = handle('m', device->gpu, computes[k].gi, computes[k].id);
            return SUCCESS;
        }
    return NOT_FOUND;
}
int nvmlDeviceGetGpuInstanceId(Handle *device, unsigned *id) {
    *id = device->gi;
    return look("nvmlDeviceGetGpuInstanceId");
}
