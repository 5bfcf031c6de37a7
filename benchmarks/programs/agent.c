/* An agent with almost no cost: agent UPDATES SIZE BATCH PACE VERSION TAPE
 *
 * It answers initialize (its version is the time of its first instruction), session/new, session/resume (with the time
 * of the answer in _meta) and session/prompt.
 * It answers a prompt with UPDATES updates of SIZE bytes each, in writes of up to BATCH bytes (0: a write for each),
 * PACE microseconds apart, a `_bench/ping` with one update, and a `_bench/ask` with an answer of 200 bytes. After
 * `_bench/files` it asks for a file, after `_bench/terminals` for a terminal and its output, and again after each answer.
 * It drops other lines, and examines only the beginning of each line. VERSION: of the protocol, whatever the client asks
 * for; 1 or 2. TAPE: the file with the lines that answer the prompts instead, each sent alone. An empty line ends a turn,
 * and after a line that begins with `?` instead of a space, the agent waits for an answer.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HEAD 512
#define UPDATE "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"bench-session-1\",\"update\":" \
    "{\"sessionUpdate\":"
#define CHUNK "\"agent_message_chunk\","
#define CONTENT "\"content\":{\"type\":\"text\",\"text\":\"@"
#define STATE UPDATE "\"state_update\",\"state\":"
#define END "\"}}}}\n"
#define ANSWER "{\"jsonrpc\":\"2.0\",\"id\":%.*s,\"result\":"
#define QUESTION "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"method\":\"%s\",\"params\":{\"sessionId\":\"bench-session-1\",%s}}\n"
#define FILES "fs/read_text_file", "\"path\":\"/bench/source.py\",\"line\":1,\"limit\":100"
#define TERMINALS "terminal/output", "\"terminalId\":\"terminal-1\""
#define STAMP 20

static char *line, *batch, *tape, *played, prompted[HEAD];
static size_t size, batch_size, gathered;
static const char *start = UPDATE CHUNK CONTENT;
static long updates, pace, version, asked;
static enum { NOTHING, OF_FILES, OF_TERMINALS } asks;
static long long began;

static long long now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void put(const char *data, size_t left)
{
    while (left) {
        ssize_t written = write(1, data, left);
        if (written < 0)
            exit(1);
        data += written, left -= written;
    }
}

static void flush(void)
{
    put(batch, gathered);
    gathered = 0;
}

static void update(void)
{
    char stamp[STAMP + 1];
    snprintf(stamp, sizeof stamp, "%0*lld", STAMP, now());
    memcpy(line + strlen(start), stamp, STAMP);
    if (gathered + size > batch_size)
        flush();
    if (size > batch_size) {
        put(line, size);
    } else {
        memcpy(batch + gathered, line, size);
        gathered += size;
    }
}

static void turn(void)
{
    long long next = now();
    for (long at = 0; at < updates; at++) {
        if (pace) {
            long long left = next - now();
            struct timespec rest = {left / 1000000000, left % 1000000000};
            if (left > 0)
                nanosleep(&rest, NULL);
            next += pace * 1000;
        }
        update();
    }
    flush();
}

/* Send the tape's lines up to one that asks, or to the end of the turn: true. */
static int play(void)
{
    for (;;) {
        char *end = strchr(played, '\n'), kind = *played;
        if (kind != '\n')
            put(played + 1, end - played);
        played = end[1] ? end + 1 : tape;
        if (kind != ' ')
            return kind == '\n';
    }
}

static void ask(void)
{
    char out[HEAD];
    asked++;
    if (asks == OF_FILES)
        snprintf(out, HEAD, QUESTION, asked, FILES);
    else if (asked == 1)
        snprintf(out, HEAD, QUESTION, asked, "terminal/create", "\"command\":\"make\"");
    else
        snprintf(out, HEAD, QUESTION, asked, TERMINALS);
    put(out, strlen(out));
}

static void answer(const char *head)
{
    char out[HEAD];
    const char *found = strstr(head, "\"id\":");
    const char *id = found ? found + 5 : "-1"; /* as it came: some clients send strings */
    int wide = *id == '"' ? (int)strcspn(id + 1, "\"") + 2 : (int)strspn(id, "-0123456789");
    long number = atol(id);
    if (strstr(head, "\"initialize\"") && version == 2)
        snprintf(out, HEAD, "{\"jsonrpc\":\"2.0\",\"id\":%.*s,\"result\":{\"protocolVersion\":2,\"capabilities\":{\"session\":{}},"
            "\"info\":{\"name\":\"bench\",\"version\":\"%lld\"}}}\n", wide, id, began);
    else if (strstr(head, "\"initialize\""))
        snprintf(out, HEAD, "{\"jsonrpc\":\"2.0\",\"id\":%.*s,\"result\":{\"protocolVersion\":1,\"agentCapabilities\":"
            "{\"loadSession\":false,\"sessionCapabilities\":{\"resume\":{}}},\"authMethods\":[],\"agentInfo\":{\"name\":\"bench\",\"version\":\"%lld\"}}}\n", wide, id, began);
    else if (strstr(head, "\"session/new\""))
        snprintf(out, HEAD, "{\"jsonrpc\":\"2.0\",\"id\":%.*s,\"result\":{\"sessionId\":\"bench-session-1\"}}\n", wide, id);
    else if (strstr(head, "\"session/resume\""))
        snprintf(out, HEAD, "{\"jsonrpc\":\"2.0\",\"id\":%.*s,\"result\":{\"_meta\":{\"answered\":%lld}}}\n", wide, id, now());
    else if (strstr(head, "\"session/prompt\"") && version == 2) {
        snprintf(out, HEAD, STATE "\"running\"}}}\n{\"jsonrpc\":\"2.0\",\"id\":%.*s,\"result\":{\"messageId\":\"u%ld\"}}\n", wide, id, number);
        put(out, strlen(out));
        turn();
        snprintf(out, HEAD, STATE "\"idle\",\"stopReason\":\"end_turn\"}}}\n");
    } else if (strstr(head, "\"session/prompt\"")) {
        snprintf(prompted, HEAD, ANSWER "{\"stopReason\":\"end_turn\"}}\n", wide, id);
        if (!tape)
            turn();
        else if (!play())
            return;
        strcpy(out, prompted);
    } else if (tape && strstr(head, "\"result\"")) {
        if (!play())
            return;
        strcpy(out, prompted);
    } else if (strstr(head, "bench/ask"))
        snprintf(out, HEAD, ANSWER "{\"filling\":\"%0*d\"}}\n", wide, id, 142, 0);
    else {
        if (strstr(head, "bench/ping"))
            update(), flush();
        else if (strstr(head, "bench/files"))
            asks = OF_FILES, ask();
        else if (strstr(head, "bench/terminals"))
            asks = OF_TERMINALS, ask();
        else if (asks != NOTHING && strstr(head, "\"result\""))
            ask();
        return;
    }
    put(out, strlen(out));
}

static char *whole(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END))
        exit(1);
    long length = ftell(file);
    char *text = calloc(length + 1, 1);
    rewind(file);
    if (fread(text, 1, length, file) != (size_t)length)
        exit(1);
    fclose(file);
    return text;
}

int main(int count, char **words)
{
    static char buffer[64 * 1024], head[HEAD];
    size_t known = 0, least;
    ssize_t got;
    began = now();
    updates = count > 1 ? atol(words[1]) : 1;
    size = count > 2 ? strtoul(words[2], NULL, 10) : 200;
    batch_size = count > 3 ? strtoul(words[3], NULL, 10) : 0;
    pace = count > 4 ? atol(words[4]) : 0;
    version = count > 5 ? atol(words[5]) : 1;
    tape = played = count > 6 ? whole(words[6]) : NULL;
    if (version == 2)
        start = UPDATE CHUNK "\"messageId\":\"m1\"," CONTENT;
    least = strlen(start) + STAMP + strlen(END);
    size = size < least ? least : size;
    line = malloc(size), batch = malloc(batch_size + 1);
    memset(line, 'x', size);
    memcpy(line, start, strlen(start));
    memcpy(line + size - strlen(END), END, strlen(END));
    while ((got = read(0, buffer, sizeof buffer)) > 0) {
        char *at = buffer, *stop = buffer + got;
        while (at < stop) {
            char *end = memchr(at, '\n', stop - at);
            size_t piece = (end ? end : stop) - at, room = HEAD - 1 - known, taken = piece < room ? piece : room;
            memcpy(head + known, at, taken);
            known += taken;
            if (end) {
                head[known] = 0;
                answer(head);
                known = 0;
            }
            at = end ? end + 1 : stop;
        }
    }
    return 0;
}
