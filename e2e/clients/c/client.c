/* Drives limitdb with hiredis, blocking and by hand-made pipelines. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *env(const char *name) {
    const char *v = getenv(name);
    if (v == NULL) {
        fprintf(stderr, "%s is not set\n", name);
        exit(1);
    }
    return v;
}

static void ok(const char *name, const char *got, const char *want) {
    if (strcmp(got, want) != 0) {
        fprintf(stderr, "%s: got '%s', want '%s'\n", name, got, want);
        exit(1);
    }
    printf("ok %s\n", name);
}

/* print writes a reply to buf and frees it: an array as integers with blanks between. */
static const char *print(redisReply *r, char *buf, size_t size) {
    if (r == NULL) {
        snprintf(buf, size, "no reply");
        return buf;
    }
    if (r->type == REDIS_REPLY_ARRAY) {
        size_t n = 0;
        for (size_t i = 0; i < r->elements && n < size; i++)
            n += snprintf(buf + n, size - n, i ? " %lld" : "%lld", r->element[i]->integer);
    } else if (r->type == REDIS_REPLY_INTEGER) {
        snprintf(buf, size, "%lld", r->integer);
    } else {
        snprintf(buf, size, "%s%s", r->type == REDIS_REPLY_ERROR ? "error " : "", r->str ? r->str : "nil");
    }
    freeReplyObject(r);
    return buf;
}

static redisContext *dial(const char *port) {
    redisContext *c = redisConnect(env("LIMITDB_HOST"), atoi(env(port)));
    if (c == NULL || c->err) {
        fprintf(stderr, "connect: %s\n", c ? c->errstr : "no memory");
        exit(1);
    }
    return c;
}

int main(void) {
    char buf[1024];
    const char *key = env("LIMITDB_KEY");
    redisContext *c = dial("LIMITDB_PORT");

#define RUN(...) print(redisCommand(c, __VA_ARGS__), buf, sizeof buf)
    ok("ping", RUN("PING"), "PONG");
    ok("throttle", RUN("CL.THROTTLE %s:throttle 15 30 60", key), "0 16 15 -1 2");
    ok("take", RUN("RL.TAKE %s:take GCRA 5/m", key), "0 5 4 -1 12000");
    ok("error", RUN("CL.THROTTLE %s:error 15 30 sixty", key),
       "error Cell error: Store error: Couldn't parse as integer: sixty");
    RUN("CLIENT SETNAME e2e-c");
    ok("setname", RUN("CLIENT GETNAME"), "e2e-c");

    for (int i = 0; i < 1000; i++)
        redisAppendCommand(c, "CL.THROTTLE %s:pipeline 499 1 86400", key);
    int allowed = 0;
    for (int i = 0; i < 1000; i++) {
        redisReply *r;
        if (redisGetReply(c, (void **)&r) != REDIS_OK || r->type != REDIS_REPLY_ARRAY) {
            fprintf(stderr, "pipeline: reply %d: %s\n", i, c->errstr);
            return 1;
        }
        allowed += r->element[0]->integer == 0;
        freeReplyObject(r);
    }
    snprintf(buf, sizeof buf, "%d", allowed);
    ok("pipeline", buf, "500");

    long long id = atoll(RUN("CLIENT ID"));
    redisContext *other = dial("LIMITDB_PORT");
    print(redisCommand(other, "CLIENT KILL ID %lld", id), buf, sizeof buf);
    redisFree(other);
    ok("kill", buf, "1");
    ok("closed", RUN("PING"), "no reply");
    if (redisReconnect(c) != REDIS_OK) {
        fprintf(stderr, "reconnect: %s\n", c->errstr);
        return 1;
    }
    ok("reconnect", RUN("PING"), "PONG");
    redisFree(c);

    c = dial("LIMITDB_AUTH_PORT");
    ok("noauth", RUN("PING"), "error NOAUTH Authentication required.");
    ok("wrongpass", RUN("AUTH wrong"),
       "error WRONGPASS invalid username-password pair or user is disabled.");
    ok("auth", RUN("AUTH %s", env("LIMITDB_PASSWORD")), "OK");
    redisFree(c);
    return 0;
}
