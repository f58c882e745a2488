/* Preloaded into a process, writes down all that it does to the files of one folder.

   RECORD_FOLDER is the folder, RECORD_LOG the file of records, which several processes may share. A record is one
   append: a header, the path, the bytes written. A write is recorded after it was made, a sync before and after it, so
   that no order of records claims more to be on the disk than is. What is written through a memory map is not seen. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

struct header { uint32_t kind, path; int64_t number; uint64_t size; };

static const char *folder;
static int record = -1;

/* Called with the first file that the process opens, before it has threads. */
static void start(void) {
    static int is_started;
    if (is_started) return;
    is_started = 1;
    const char *name = getenv("RECORD_LOG");
    folder = getenv("RECORD_FOLDER");
    if (!folder || !name) return;
    int file = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    record = fcntl(file, F_DUPFD_CLOEXEC, 700);
    if (record < 0) { perror(name); abort(); }
    close(file);
}

static int is_ours(const char *path) {
    size_t length = folder ? strlen(folder) : 0;
    return record >= 0 && strncmp(path, folder, length) == 0 && (path[length] == '/' || !path[length]);
}

/* The path of an open file, if it is one of ours. */
static int find(int file, char *path) {
    char link[64];
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = record < 0 ? -1 : readlink(link, path, 4095);
    errno = before;
    if (length < 0) return 0;
    path[length] = 0;
    return is_ours(path);
}

static void note(char kind, const char *path, int64_t number, const void *bytes, size_t size) {
    int before = errno;
    struct header header = {(uint32_t)kind, (uint32_t)strlen(path), number, size};
    struct iovec parts[] = {{&header, sizeof header}, {(void *)path, header.path}, {(void *)bytes, size}};
    size_t whole = sizeof header + header.path + size;
    if (writev(record, parts, 3) != (ssize_t)whole) { perror("RECORD_LOG"); abort(); }
    errno = before;
}

#define REAL(name) static typeof(&name) real; if (!real) real = (typeof(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int file, const void *bytes, size_t size) {
    REAL(write);
    char path[4096];
    ssize_t done = real(file, bytes, size);
    if (done > 0 && find(file, path)) note('w', path, lseek(file, 0, SEEK_CUR) - done, bytes, (size_t)done);
    return done;
}

static ssize_t placed(ssize_t done, int file, const void *bytes, int64_t offset) {
    char path[4096];
    if (done > 0 && find(file, path)) note('w', path, offset, bytes, (size_t)done);
    return done;
}

ssize_t pwrite(int file, const void *bytes, size_t size, off_t offset) {
    REAL(pwrite);
    return placed(real(file, bytes, size, offset), file, bytes, offset);
}

ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t offset) {
    REAL(pwrite64);
    return placed(real(file, bytes, size, offset), file, bytes, offset);
}

static int cut(int done, int file, int64_t size) {
    char path[4096];
    if (done == 0 && find(file, path)) note('t', path, size, 0, 0);
    return done;
}

int ftruncate(int file, off_t size) { REAL(ftruncate); return cut(real(file, size), file, size); }
int ftruncate64(int file, off64_t size) { REAL(ftruncate64); return cut(real(file, size), file, size); }

static int synced(int (*real)(int), int file) {
    char path[4096];
    if (!find(file, path)) return real(file);
    int64_t number = gettid(); /* which makes one sync at a time */
    note('b', path, number, 0, 0);
    int done = real(file);
    if (done == 0) note('s', path, number, 0, 0);
    return done;
}

int fsync(int file) { REAL(fsync); return synced(real, file); }
int fdatasync(int file) { REAL(fdatasync); return synced(real, file); }

int unlink(const char *path) {
    REAL(unlink);
    int done = real(path);
    if (done == 0 && is_ours(path)) note('u', path, 0, 0, 0);
    return done;
}

static int made(int file, int was_there) {
    char path[4096];
    if (file >= 0 && !was_there && find(file, path)) note('c', path, 0, 0, 0);
    return file;
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        start(); \
        va_list rest; \
        va_start(rest, flags); \
        unsigned mode = flags & O_CREAT ? va_arg(rest, unsigned) : 0; \
        va_end(rest); \
        int before = errno, was_there = !(flags & O_CREAT) || access(path, F_OK) == 0; \
        errno = before; \
        return made(real(path, flags, mode), was_there); \
    }
OPEN(open)
OPEN(open64)
