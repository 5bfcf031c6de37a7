/* A bad disk for one process: preloaded, it counts the calls on files of a store, and makes chosen ones fail, hang, kill
 * the process, or write half and then fail. It is controlled by torture/faults.py through a shared file.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum act { NOTHING, FAIL, HANG, KILL, HALF };
enum call { OPEN = 1, WRITE = 2, SYNC = 4, TRUNCATE = 8, RENAME = 16, UNLINK = 32, MKDIR = 64, READ = 128 };
enum file { TRANSCRIPT = 1, JOURNAL = 2, MARK = 4, INDEX = 8, OTHER = 16 };

struct control {
    volatile long act, error, calls, files, first, last, seen, hit, stuck;
};

static struct control *control;
static char root[4096];
static size_t root_length;
static unsigned char kinds[65536]; /* of each open descriptor */

__attribute__((constructor)) static void begin(void)
{
    const char *store = getenv("TORTURE_STORE"), *path = getenv("TORTURE_CONTROL");
    if (!store || !path || strlen(store) >= sizeof root)
        return;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *shared = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (shared == MAP_FAILED)
        return;
    strcpy(root, store);
    root_length = strlen(root);
    control = shared;
}

static int ends(const char *text, const char *with)
{
    size_t length = strlen(text), end = strlen(with);
    return length >= end && !strcmp(text + length - end, with);
}

static int kind_of(const char *path)
{
    if (!control || !path || strncmp(path, root, root_length) || (path[root_length] && path[root_length] != '/'))
        return 0;
    const char *inside = path + root_length;
    if (!strncmp(inside, "/index.sqlite3", 14))
        return INDEX;
    if (!strncmp(inside, "/unindexed/", 11))
        return MARK;
    if (!strncmp(inside, "/transcripts/", 13) && ends(inside, ".jsonl"))
        return ends(inside, "/state.jsonl") ? JOURNAL : TRANSCRIPT;
    return OTHER;
}

static int kind(int fd)
{
    return control && fd >= 0 && fd < (int)sizeof kinds ? kinds[fd] : 0;
}

/* The fate of a call: 0 (it is made), FAIL (errno is set) or HALF. */
static int fate(int call, int kind)
{
    if (!kind || !(control->calls & call) || !(control->files & kind))
        return 0;
    long number = __atomic_add_fetch(&control->seen, 1, __ATOMIC_SEQ_CST), act = control->act;
    if (act == NOTHING || number < control->first || number > control->last)
        return 0;
    __atomic_add_fetch(&control->hit, 1, __ATOMIC_SEQ_CST);
    if (act == KILL)
        kill(getpid(), SIGKILL);
    if (act == HANG) {
        __atomic_add_fetch(&control->stuck, 1, __ATOMIC_SEQ_CST);
        while (control->act == HANG)
            usleep(1000);
        __atomic_add_fetch(&control->stuck, -1, __ATOMIC_SEQ_CST);
        return 0;
    }
    errno = (int)control->error;
    return act == HALF && number > control->first ? FAIL : (int)act;
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) \
        real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define OPENING(name) \
    int name(const char *path, int flags, ...) \
    { \
        REAL(name); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        int found = kind_of(path); \
        if (fate(OPEN, found)) \
            return -1; \
        int fd = real(path, flags, mode); \
        if (fd >= 0 && fd < (int)sizeof kinds) \
            kinds[fd] = (unsigned char)found; \
        return fd; \
    }
OPENING(open)
OPENING(open64)

int close(int fd)
{
    REAL(close);
    if (kind(fd))
        kinds[fd] = 0;
    return real(fd);
}

#define WRITING(name, ...) \
    ssize_t name(int fd, const void *data, size_t size __VA_OPT__(, off64_t at)) \
    { \
        REAL(name); \
        int act = fate(WRITE, kind(fd)); \
        if (act == FAIL || (act == HALF && size < 2)) \
            return -1; \
        return real(fd, data, act == HALF ? size / 2 : size __VA_OPT__(, at)); \
    }
WRITING(write)
WRITING(pwrite, at)
WRITING(pwrite64, at)

#define READING(name, ...) \
    ssize_t name(int fd, void *data, size_t size __VA_OPT__(, off64_t at)) \
    { \
        REAL(name); \
        return fate(READ, kind(fd)) ? -1 : real(fd, data, size __VA_OPT__(, at)); \
    }
READING(read)
READING(pread, at)
READING(pread64, at)

#define ON_FILE(name, call, parameters, ...) \
    int name parameters \
    { \
        REAL(name); \
        return fate(call, kind(fd)) ? -1 : real(__VA_ARGS__); \
    }
ON_FILE(fsync, SYNC, (int fd), fd)
ON_FILE(fdatasync, SYNC, (int fd), fd)
ON_FILE(ftruncate, TRUNCATE, (int fd, off_t size), fd, size)
ON_FILE(ftruncate64, TRUNCATE, (int fd, off64_t size), fd, size)

#define ON_PATH(name, call, parameters, ...) \
    int name parameters \
    { \
        REAL(name); \
        return fate(call, kind_of(path)) ? -1 : real(__VA_ARGS__); \
    }
ON_PATH(unlink, UNLINK, (const char *path), path)
ON_PATH(rename, RENAME, (const char *path, const char *to), path, to)
ON_PATH(mkdir, MKDIR, (const char *path, mode_t mode), path, mode)
