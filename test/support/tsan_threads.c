/* SPDX-License-Identifier: MIT */
/* librdkafka makes its threads and locks through C11's <threads.h>, which
 * ThreadSanitizer doesn't intercept: its threads crash, and what is handed over
 * under its locks looks like a race. In that build these take their place and go
 * through pthreads, which it knows. (In glibc the types are the same memory.) */
#if defined(__SANITIZE_THREAD__)
#define TSAN_BUILD 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSAN_BUILD 1
#endif
#endif

#ifdef TSAN_BUILD
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <threads.h>

struct start {
    thrd_start_t run;
    void *arg;
};

static void *run_thread(void *arg) {
    struct start start = *(struct start *)arg;
    free(arg);
    return (void *)(intptr_t)start.run(start.arg);
}

static int result_of(int rc) {
    return rc == 0 ? thrd_success : rc == EBUSY ? thrd_busy : rc == ETIMEDOUT ? thrd_timedout : thrd_error;
}

int thrd_create(thrd_t *thread, thrd_start_t run, void *arg) {
    struct start *start = malloc(sizeof *start);
    if (!start)
        return thrd_nomem;
    *start = (struct start){.run = run, .arg = arg};
    int rc = pthread_create(thread, NULL, run_thread, start);
    if (rc != 0)
        free(start);
    return result_of(rc);
}

int thrd_join(thrd_t thread, int *result) {
    void *value = NULL;
    int rc = pthread_join(thread, &value);
    if (rc == 0 && result)
        *result = (int)(intptr_t)value;
    return result_of(rc);
}

int thrd_detach(thrd_t thread) {
    return result_of(pthread_detach(thread));
}

int mtx_init(mtx_t *m, int type) {
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    if (type & mtx_recursive)
        pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    int rc = pthread_mutex_init((pthread_mutex_t *)m, &attr);
    pthread_mutexattr_destroy(&attr);
    return result_of(rc);
}

void mtx_destroy(mtx_t *m) {
    pthread_mutex_destroy((pthread_mutex_t *)m);
}

int mtx_lock(mtx_t *m) {
    return result_of(pthread_mutex_lock((pthread_mutex_t *)m));
}

int mtx_trylock(mtx_t *m) {
    return result_of(pthread_mutex_trylock((pthread_mutex_t *)m));
}

int mtx_unlock(mtx_t *m) {
    return result_of(pthread_mutex_unlock((pthread_mutex_t *)m));
}

int cnd_init(cnd_t *c) {
    return result_of(pthread_cond_init((pthread_cond_t *)c, NULL));
}

void cnd_destroy(cnd_t *c) {
    pthread_cond_destroy((pthread_cond_t *)c);
}

int cnd_signal(cnd_t *c) {
    return result_of(pthread_cond_signal((pthread_cond_t *)c));
}

int cnd_broadcast(cnd_t *c) {
    return result_of(pthread_cond_broadcast((pthread_cond_t *)c));
}

int cnd_wait(cnd_t *c, mtx_t *m) {
    return result_of(pthread_cond_wait((pthread_cond_t *)c, (pthread_mutex_t *)m));
}

int cnd_timedwait(cnd_t *restrict c, mtx_t *restrict m, const struct timespec *restrict until) {
    return result_of(pthread_cond_timedwait((pthread_cond_t *)c, (pthread_mutex_t *)m, until));
}
#else
typedef int tsan_threads_unused; /* a translation unit must not be empty */
#endif
