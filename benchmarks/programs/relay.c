/* A minimal proxy between a client and an agent: one process that polls, reads and writes. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char buffer[64 * 1024];

/* Pass one read to the other side. 0 at the end. */
static int pass(int from, int to)
{
    ssize_t size = read(from, buffer, sizeof buffer);
    for (ssize_t at = 0, written; at < size; at += written)
        if ((written = write(to, buffer + at, size - at)) < 0)
            return 0;
    return size > 0;
}

int main(int count, char **words)
{
    int in[2], out[2], status;
    if (count < 2 || pipe(in) || pipe(out))
        return 2;
    pid_t agent = fork();
    if (agent == 0) {
        dup2(in[0], 0), dup2(out[1], 1);
        close(in[0]), close(in[1]), close(out[0]), close(out[1]);
        execvp(words[1], words + 1);
        _exit(127);
    }
    close(in[0]), close(out[1]);
    struct pollfd ends[2] = {{.fd = 0, .events = POLLIN}, {.fd = out[0], .events = POLLIN}};
    while (poll(ends, 2, -1) > 0) {
        if (ends[0].revents && !pass(0, in[1]))
            close(in[1]), ends[0].fd = -1;
        if (ends[1].revents && !pass(out[0], 1))
            break;
    }
    waitpid(agent, &status, 0);
    return 0;
}
