/* A client with almost no cost: client WHAT COUNT SIZE COMMAND…
 *
 * Starts the command, talks to it, and prints the results as one JSON object: times in seconds, memory of the command's
 * own process in bytes. WHAT:
 *
 *   exit    wait for the command's end without sending anything
 *   start   initialize
 *   rest    a session, one turn, an idle second
 *   ping    COUNT notifications of SIZE bytes, each answered by an update before the next is sent
 *   spaced  the same, a millisecond apart
 *   batch   the same, each notification in a batch of its own
 *   ask     COUNT requests of SIZE bytes that only the agent knows, each answered before the next is sent
 *   ids     the same, with ids that are texts of 200 bytes
 *   files, terminals
 *           COUNT requests of the agent for a file or for the output of a terminal, answered with SIZE bytes each: the
 *           time from an answer to the next request
 *   turn    COUNT prompts, each answered before the next is sent
 *   tape    the same; the agent's questions, which end in `_meta`, are answered
 *   stream  one prompt; the agent decides about the updates
 *   rush    the same, at once after the start
 *   stall   the same as stream, with two seconds before the first read
 *   up      COUNT answers of SIZE bytes, as if to the agent's requests for files
 *   prompt  one prompt of SIZE bytes
 *   load    session/load of the session `measured`: the time of its first byte since the agent's answer and since the request
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAUSE 1000 /* microseconds: enough for all processes to go to sleep */
#define TAIL 4096
#define ASKED 32 /* the end of a question: its id */
#define SETTLING 100 /* tenths of a second */
#define SINCE "\"name\":\"bench\",\"version\":\"" /* the time of the agent's first instruction */
#define RESUMED "\"_meta\":{\"answered\":" /* the time of the agent's answer to a resume */
#define LOAD "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"session/load\",\"params\":{\"sessionId\":\"measured\",\"cwd\":\"/bench\",\"mcpServers\":[]}}\n"
#define PATIENCE 300 /* seconds: longer than the slowest measurement */

static char buffer[256 * 1024], tail[TAIL + 1];
static size_t tail_size;
static long long received;
static int to, from;
static pid_t command;

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static void fail(const char *why)
{
    fprintf(stderr, "client: %s\n", why);
    if (command > 0)
        kill(command, SIGKILL);
    exit(1);
}

static void out_of_time(int number)
{
    (void)number;
    fail("the command did not answer in time");
}

/* CPU time of the command's own process in seconds. Its clock counts each thread once; to sum up /proc/…/task is easy to
 * get wrong, since `..` there is the process, whose figures are those of its first thread. */
static double processor(void)
{
#ifdef __APPLE__
    return 0; /* has no clock for another process */
#else
    clockid_t clock;
    struct timespec at;
    if (clock_getcpuclockid(command, &clock) || clock_gettime(clock, &at))
        fail("the command has no clock");
    return at.tv_sec + at.tv_nsec / 1e9;
#endif
}

static long memory(const char *key)
{
    char path[64], text[256];
    long found = 0;
    snprintf(path, sizeof path, "/proc/%d/status", command);
    FILE *file = fopen(path, "r");
    while (file && fgets(text, sizeof text, file))
        if (!strncmp(text, key, strlen(key)))
            found = atol(text + strlen(key) + 1) * 1024;
    if (file)
        fclose(file);
    return found;
}

/* Wait until the command is idle: what it loads late is not measured. */
static void settle(void)
{
    double before = -1, spent = processor();
    for (int at = 0; at < SETTLING && spent - before > 0.0005; at++) {
        usleep(100000);
        before = spent, spent = processor();
    }
}

static void forget_peak(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/clear_refs", command);
    FILE *file = fopen(path, "w");
    if (file) {
        fputs("5", file);
        fclose(file);
    }
}

static void put(const char *data, size_t left)
{
    while (left) {
        ssize_t written = write(to, data, left);
        if (written < 0)
            fail("the command does not read any more");
        data += written, left -= written;
    }
}

static size_t take(void)
{
    ssize_t got = read(from, buffer, sizeof buffer);
    if (got <= 0)
        fail("the command's output ended");
    received += got;
    size_t kept = got < TAIL ? got : TAIL;
    if (tail_size + kept > TAIL) {
        size_t old = TAIL - kept;
        memmove(tail, tail + tail_size - old, old);
        tail_size = old;
    }
    memcpy(tail + tail_size, buffer + got - kept, kept);
    tail_size += kept;
    tail[tail_size] = 0;
    return got;
}

/* Read until the last line is whole, and has this in its last bytes. */
static void take_until(const char *sign)
{
    do
        take();
    while (tail[tail_size - 1] != '\n' || !memmem(tail, tail_size, sign, strlen(sign)));
}

static void ask(const char *text, const char *sign)
{
    tail_size = 0;
    put(text, strlen(text));
    take_until(sign);
}

static void prompt(long id)
{
    char text[300];
    snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"method\":\"session/prompt\",\"params\":{\"sessionId\":"
        "\"bench-session-1\",\"prompt\":[{\"type\":\"text\",\"text\":\"Go on with number %ld\"}]}}\n", id, id);
    tail_size = 0;
    put(text, strlen(text));
}

/* Read until the end of the turn, and answer the questions in it. */
static void answer_questions(void)
{
    char text[300];
    while (!memmem(tail, tail_size, "\"stopReason\"", 12) || tail[tail_size - 1] != '\n') {
        take();
        char *last = tail + (tail_size > ASKED ? tail_size - ASKED : 0), *asked = strstr(last, "\"_meta\":{\"asks\":");
        if (asked && tail[tail_size - 1] == '\n') {
            snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":{\"outcome\":{\"outcome\":\"selected\","
                "\"optionId\":\"allow\"}}}\n", atol(asked + 16));
            tail_size = 0;
            put(text, strlen(text));
        }
    }
}

static int smaller(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

static void percentiles(double *times, long count)
{
    if (count < 1)
        fail("nothing was timed");
    qsort(times, count, sizeof *times, smaller);
    printf("\"p50\":%.9f,\"p90\":%.9f,\"p99\":%.9f,", times[count / 2], times[count * 9 / 10], times[count * 99 / 100]);
}

/* A line of this size: a beginning, padding, an end. */
static char *filled(const char *start, const char *end, size_t size)
{
    size_t least = strlen(start) + strlen(end);
    size = size < least ? least : size;
    char *line = malloc(size + 1);
    memset(line, 'x', size);
    memcpy(line, start, strlen(start));
    strcpy(line + size - strlen(end), end);
    return line;
}

static void pings(long count, size_t size, double *times, int pause, int is_batch)
{
    const char *start = "[{\"jsonrpc\":\"2.0\",\"method\":\"_bench/ping\",\"params\":{\"sessionId\":\"bench-session-1\",\"filling\":\"";
    char *line = filled(is_batch ? start : start + 1, is_batch ? "\"}}]\n" : "\"}}\n", size);
    for (long at = 0; at < count; at++) {
        double sent = now();
        ask(line, "\n");
        times[at] = now() - sent;
        if (pause)
            usleep(pause);
    }
    free(line);
}

static void asks(long count, size_t size, double *times, int is_text)
{
    char *line = NULL, start[400];
    const char *id = is_text ? "\"%0198ld\"" : "%ld";
    for (long at = 0; at < count; at++) {
        char text[210];
        snprintf(text, sizeof text, id, at + 100);
        snprintf(start, sizeof start, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"_bench/ask\",\"params\":{\"sessionId\":"
            "\"bench-session-1\",\"filling\":\"", text);
        line = filled(start, "\"}}\n", size);
        double sent = now();
        ask(line, "\n");
        times[at] = now() - sent;
        free(line);
    }
}

static void answers(const char *what, long count, size_t size, double *times)
{
    int is_file = !strcmp(what, "files");
    char start[200];
    long first = is_file ? 1 : 2;
    ask(is_file ? "{\"jsonrpc\":\"2.0\",\"method\":\"_bench/files\"}\n" : "{\"jsonrpc\":\"2.0\",\"method\":\"_bench/terminals\"}\n", "\n");
    if (!is_file)
        ask("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"terminalId\":\"terminal-1\"}}\n", "\n");
    for (long at = 0; at < count; at++) {
        snprintf(start, sizeof start, "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":{\"%s\":\"", at + first, is_file ? "content" : "output");
        char *line = filled(start, is_file ? "\"}}\n" : "\",\"truncated\":false}}\n", size);
        double sent = now();
        ask(line, "\n");
        times[at] = now() - sent;
        free(line);
    }
}

/* The stream of one turn; if its lines have the time of their write, also the latency of each. */
static long stream(double *times, long count)
{
    long seen = 0;
    for (;;) {
        size_t got = take();
        double at = now();
        for (char *mark = buffer; times && seen < count && (mark = memmem(mark, buffer + got - mark, "\"@", 2)); mark += 2)
            times[seen++] = at - atoll(mark + 2) / 1e9;
        if (tail[tail_size - 1] == '\n' && memmem(tail, tail_size, "\"stopReason\"", 12))
            return seen;
    }
}

int main(int count, char **words)
{
    if (count < 5)
        fail("client WHAT COUNT SIZE COMMAND…");
    const char *what = words[1];
    long times_count = atol(words[2]);
    size_t size = strtoul(words[3], NULL, 10);
    double *times = calloc(times_count + 1, sizeof *times);
    int in[2], out[2], status;
    struct rusage used;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGALRM, out_of_time);
    alarm(PATIENCE);
    if (pipe(in) || pipe(out))
        fail("no pipes");
    double began = now();
    command = fork();
    if (command == 0) {
        signal(SIGPIPE, SIG_DFL);
        dup2(in[0], 0), dup2(out[1], 1);
        close(in[0]), close(in[1]), close(out[0]), close(out[1]);
        execvp(words[4], words + 4);
        _exit(127);
    }
    close(in[0]), close(out[1]);
    to = in[1], from = out[0];
    printf("{");
    if (!strcmp(what, "exit")) {
        while (read(from, buffer, sizeof buffer) > 0)
            ;
    } else {
        ask("{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1,\"clientCapabilities\":{},"
            "\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}\n", "\"result\"");
        printf("\"answered\":%.9f,", now() - began);
        char *version = strstr(tail, SINCE);
        if (version)
            printf("\"started\":%.9f,", atoll(version + strlen(SINCE)) / 1e9 - began);
    }
    if (!strcmp(what, "load")) {
        settle(); /* the C agent is ready before the proxy has loaded what a replay needs; real agents are not */
        forget_peak();
        long before = memory("VmRSS:");
        long long had = received;
        double asked = now();
        tail_size = 0;
        put(LOAD, strlen(LOAD));
        take();
        double first = now();
        while (tail[tail_size - 1] != '\n' || !memmem(tail, tail_size, "\"id\":2,", 7))
            take();
        if (memmem(tail, tail_size, "\"error\"", 7))
            fail("the load was refused");
        char *answered = memmem(tail, tail_size, RESUMED, strlen(RESUMED));
        if (!answered)
            fail("the agent did not resume the session");
        printf("\"first\":%.9f,\"waited\":%.9f,", first - atoll(answered + strlen(RESUMED)) / 1e9, first - asked);
        printf("\"last\":%.9f,\"growth\":%ld,\"received\":%lld,", now() - asked, memory("VmHWM:") - before, received - had);
    } else if (strcmp(what, "exit") && strcmp(what, "start")) {
        ask("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/new\",\"params\":{\"cwd\":\"/bench\",\"mcpServers\":[]}}\n", "\"result\"");
        if (strcmp(what, "rush")) {
            pings(200 < times_count ? 200 : times_count, 200, times, 0, 0); /* warm-up */
            settle();
        }
        forget_peak();
        long before = memory("VmRSS:");
        long long had = received;
        double spent = processor();
        began = now();
        if (!strcmp(what, "ping") || !strcmp(what, "spaced") || !strcmp(what, "batch")) {
            pings(times_count, size, times, strcmp(what, "spaced") ? 0 : PAUSE, !strcmp(what, "batch"));
            percentiles(times, times_count);
        } else if (!strcmp(what, "ask") || !strcmp(what, "ids")) {
            asks(times_count, size, times, !strcmp(what, "ids"));
            percentiles(times, times_count);
        } else if (!strcmp(what, "files") || !strcmp(what, "terminals")) {
            answers(what, times_count, size, times);
            percentiles(times, times_count);
        } else if (!strcmp(what, "turn") || !strcmp(what, "tape")) {
            for (long at = 0; at < times_count; at++) {
                double sent = now();
                prompt(at + 2);
                if (strcmp(what, "tape"))
                    take_until("\"stopReason\"");
                else
                    answer_questions();
                times[at] = now() - sent;
            }
            percentiles(times, times_count);
        } else if (!strcmp(what, "stream") || !strcmp(what, "rush") || !strcmp(what, "stall")) {
            prompt(2);
            if (!strcmp(what, "stall"))
                sleep(2), printf("\"stalled\":%ld,", memory("VmHWM:") - before);
            long seen = stream(times_count ? times : NULL, times_count);
            if (times_count)
                percentiles(times, seen);
        } else if (!strcmp(what, "up")) {
            char *line = filled("{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{\"content\":\"", "\"}}\n", size);
            size_t length = strlen(line);
            for (long at = 0; at < times_count; at++)
                put(line, length);
            pings(1, 200, times, 0, 0);
        } else if (!strcmp(what, "prompt")) {
            char *line = filled("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"session/prompt\",\"params\":{\"sessionId\":\"bench-session-1\","
                "\"prompt\":[{\"type\":\"text\",\"text\":\"", "\"}]}}\n", size);
            tail_size = 0;
            put(line, strlen(line));
            take_until("\"stopReason\"");
        } else if (!strcmp(what, "rest")) {
            sleep(1);
        } else
            fail("there is no such thing to measure");
        printf("\"seconds\":%.9f,\"cpu\":%.9f,\"rest\":%ld,\"growth\":%ld,\"received\":%lld,", now() - began, processor() - spent,
            before, memory("VmHWM:") - before, received - had);
    }
    close(to);
    while (read(from, buffer, sizeof buffer) > 0)
        ;
    wait4(command, &status, 0, &used);
    printf("\"wall\":%.9f,\"peak\":%ld,\"status\":%d}\n", now() - began,
#ifdef __APPLE__
        used.ru_maxrss,
#else
        used.ru_maxrss * 1024,
#endif
        WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return 0;
}
