/* A bad disk for one process: preloaded, it counts the calls on files of a store, and makes chosen ones fail, hang, kill
 * the process, write half and then fail, or do half. It is controlled by torture/faults.py through a shared file.
 *
 * A close that fails closes, as Linux does, and at once the number becomes that of an unrelated file: whatever still uses
 * it is counted as misused, and shows in that file.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum act { NOTHING, FAIL, HANG, KILL, HALF, SHORT };
enum call { /* as CALLS in faults.py */
    OPEN, READ, PREAD, WRITE, PWRITE, FSYNC, FDATASYNC, FTRUNCATE, TRUNCATE, RENAME, UNLINK, MKDIR, CLOSE, STAT, FSTAT,
    ACCESS, OPENDIR, READDIR, LINK, UTIMENSAT, FLOCK, FCNTL, MMAP, COPY, STATVFS, CHMOD, CALLS
};
enum file { TRANSCRIPT = 1, JOURNAL = 2, MARK = 4, INDEX = 8, OTHER = 16, UNRELATED = 128 };

struct control {
    volatile long act, error, calls, files, first, last, seen, hit, stuck, misused, count[CALLS];
    char root[1024]; /* the store's directory */
    char unrelated[1024]; /* the file that gets the number of a descriptor whose close fails; may be empty */
};

static struct control *control;
static unsigned char kinds[65536]; /* of each open descriptor */

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("TORTURE_CONTROL");
    if (!path)
        return;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *shared = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (shared == MAP_FAILED)
        return;
    control = shared;
}

static int ends(const char *text, const char *with)
{
    size_t length = strlen(text), end = strlen(with);
    return length >= end && !strcmp(text + length - end, with);
}

static int kind_of(const char *path)
{
    size_t length = control ? strlen(control->root) : 0;
    if (!length || !path || strncmp(path, control->root, length) || (path[length] && path[length] != '/'))
        return 0;
    const char *inside = path + length;
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
    int found = control && fd >= 0 && fd < (int)sizeof kinds ? kinds[fd] : 0;
    if (found == UNRELATED)
        __atomic_add_fetch(&control->misused, 1, __ATOMIC_SEQ_CST);
    return found;
}

static void remember(int fd, int kind)
{
    if (fd >= 0 && fd < (int)sizeof kinds)
        kinds[fd] = (unsigned char)kind;
}

/* The fate of a call: 0 (it is made), FAIL (errno is set) or HALF. */
static int fate(int call, int kind)
{
    if (!kind || kind == UNRELATED)
        return 0;
    __atomic_add_fetch(&control->count[call], 1, __ATOMIC_SEQ_CST);
    if (!(control->calls & (1L << call)) || !(control->files & kind))
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
        remember(fd, found); \
        return fd; \
    }
OPENING(open)
OPENING(open64)

int close(int fd)
{
    REAL(close);
    int found = kind(fd), act = fate(CLOSE, found);
    if (found)
        kinds[fd] = 0;
    if (!act)
        return real(fd);
    int error = errno;
    int other = control->unrelated[0] ? open(control->unrelated, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (other < 0) {
        real(fd);
    } else { /* in one step, so that no other thread gets the number */
        dup2(other, fd);
        real(other);
        remember(fd, UNRELATED);
    }
    errno = error;
    return -1;
}

#define WRITING(name, call, ...) \
    ssize_t name(int fd, const void *data, size_t size __VA_OPT__(, off64_t at)) \
    { \
        REAL(name); \
        int act = fate(call, kind(fd)); \
        if (act == FAIL || (act == HALF && size < 2)) \
            return -1; \
        return real(fd, data, act && size > 1 ? size / 2 : size __VA_OPT__(, at)); \
    }
WRITING(write, WRITE)
WRITING(pwrite, PWRITE, at)
WRITING(pwrite64, PWRITE, at)

ssize_t writev(int fd, const struct iovec *parts, int count) /* counts as a write; half of it is half of the first part */
{
    REAL(writev);
    int act = fate(WRITE, kind(fd));
    if (act == FAIL || (act == HALF && (!count || parts[0].iov_len < 2)))
        return -1;
    if (!act || !count || parts[0].iov_len < 2)
        return real(fd, parts, count);
    struct iovec half = {parts[0].iov_base, parts[0].iov_len / 2};
    return real(fd, &half, 1);
}

#define READING(name, call, ...) \
    ssize_t name(int fd, void *data, size_t size __VA_OPT__(, off64_t at)) \
    { \
        REAL(name); \
        int act = fate(call, kind(fd)); \
        if (act && act != SHORT) \
            return -1; \
        return real(fd, data, act && size > 1 ? size / 2 : size __VA_OPT__(, at)); \
    }
READING(read, READ)
READING(pread, PREAD, at)
READING(pread64, PREAD, at)

ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t size, unsigned flags)
{
    REAL(copy_file_range);
    int act = fate(COPY, kind(out));
    if (act && act != SHORT)
        return -1;
    return real(in, from, out, to, act && size > 1 ? size / 2 : size, flags);
}

#define ON_FILE(name, call, parameters, ...) \
    int name parameters \
    { \
        REAL(name); \
        return fate(call, kind(fd)) ? -1 : real(__VA_ARGS__); \
    }
ON_FILE(fsync, FSYNC, (int fd), fd)
ON_FILE(fdatasync, FDATASYNC, (int fd), fd)
ON_FILE(ftruncate, FTRUNCATE, (int fd, off_t size), fd, size)
ON_FILE(ftruncate64, FTRUNCATE, (int fd, off64_t size), fd, size)
ON_FILE(fstat, FSTAT, (int fd, struct stat *found), fd, found)
ON_FILE(fstat64, FSTAT, (int fd, struct stat64 *found), fd, found)
ON_FILE(fchmod, CHMOD, (int fd, mode_t mode), fd, mode)
ON_FILE(flock, FLOCK, (int fd, int how), fd, how)

#define ON_PATH(name, call, parameters, ...) \
    int name parameters \
    { \
        REAL(name); \
        return fate(call, kind_of(path)) ? -1 : real(__VA_ARGS__); \
    }
ON_PATH(unlink, UNLINK, (const char *path), path)
ON_PATH(rename, RENAME, (const char *path, const char *to), path, to)
ON_PATH(link, LINK, (const char *path, const char *to), path, to)
ON_PATH(mkdir, MKDIR, (const char *path, mode_t mode), path, mode)
ON_PATH(access, ACCESS, (const char *path, int how), path, how)
ON_PATH(chmod, CHMOD, (const char *path, mode_t mode), path, mode)
ON_PATH(truncate, TRUNCATE, (const char *path, off_t size), path, size)
ON_PATH(truncate64, TRUNCATE, (const char *path, off64_t size), path, size)
ON_PATH(stat, STAT, (const char *path, struct stat *found), path, found)
ON_PATH(stat64, STAT, (const char *path, struct stat64 *found), path, found)
ON_PATH(lstat, STAT, (const char *path, struct stat *found), path, found)
ON_PATH(lstat64, STAT, (const char *path, struct stat64 *found), path, found)
ON_PATH(fstatat, STAT, (int in, const char *path, struct stat *found, int how), in, path, found, how)
ON_PATH(fstatat64, STAT, (int in, const char *path, struct stat64 *found, int how), in, path, found, how)
ON_PATH(statx, STAT, (int in, const char *path, int how, unsigned mask, struct statx *found), in, path, how, mask, found)
ON_PATH(statvfs, STATVFS, (const char *path, struct statvfs *found), path, found)
ON_PATH(statvfs64, STATVFS, (const char *path, struct statvfs64 *found), path, found)
ON_PATH(utimensat, UTIMENSAT, (int in, const char *path, const struct timespec at[2], int how), in, path, at, how)

static int is_lock(int command)
{
    return command == F_SETLK || command == F_SETLKW || command == F_GETLK || command == F_OFD_SETLK ||
           command == F_OFD_SETLKW || command == F_OFD_GETLK;
}

#define LOCKING(name) \
    int name(int fd, int command, ...) \
    { \
        REAL(name); \
        va_list rest; \
        va_start(rest, command); \
        void *argument = va_arg(rest, void *); \
        va_end(rest); \
        return is_lock(command) && fate(FCNTL, kind(fd)) ? -1 : real(fd, command, argument); \
    }
LOCKING(fcntl)
LOCKING(fcntl64)

#define MAPPING(name) \
    void *name(void *address, size_t size, int protection, int flags, int fd, off64_t at) \
    { \
        REAL(name); \
        return fd >= 0 && fate(MMAP, kind(fd)) ? MAP_FAILED : real(address, size, protection, flags, fd, at); \
    }
MAPPING(mmap)
MAPPING(mmap64)

DIR *opendir(const char *path)
{
    REAL(opendir);
    int found = kind_of(path);
    if (fate(OPENDIR, found))
        return NULL;
    DIR *opened = real(path);
    if (opened)
        remember(dirfd(opened), found);
    return opened;
}

#define LISTING(name, entry) \
    struct entry *name(DIR *opened) \
    { \
        REAL(name); \
        return fate(READDIR, kind(dirfd(opened))) ? NULL : real(opened); \
    }
LISTING(readdir, dirent)
LISTING(readdir64, dirent64)

int closedir(DIR *opened)
{
    REAL(closedir);
    remember(dirfd(opened), 0);
    return real(opened);
}
