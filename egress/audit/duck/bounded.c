// What a statement takes of memory is counted here, on the thread that runs it: DuckDB's own limit does not count what functions make (texts,
// lists). The program's malloc stands before the C library's, which it calls; on other threads that is all it does.

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "bounded.h"
#include "break.h"
#include "errors.h"
#include "stack.h"

// Each of the two allocators that DuckDB uses: the C library's, by way of C++, and one of its own, which the linker has call this file's
// functions (--wrap in bounded.go), where it is there at all.
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

#define OWN __attribute__((weak))
OWN void *__real_duckdb_je_malloc(size_t);
OWN void *__real_duckdb_je_calloc(size_t, size_t);
OWN void *__real_duckdb_je_realloc(void *, size_t);
OWN void __real_duckdb_je_free(void *);
OWN size_t duckdb_je_malloc_usable_size(const void *);

// Little things are given some way beyond the limit, and once one was refused also larger ones, some way on: what ends a statement needs them, and much
// of C++, and DuckDB's own door to C, ends the program where there are none. Who handles an error is given yet more.
enum {
	LITTLE = 64 << 10, LITTLE_AT_END = 1 << 20, // at most so large
	BEYOND = 32 << 20, BEYOND_AT_END = 64 << 20, MORE = 256 << 10, // so far, with each further refusal a little further
	HANDLING = 2, // times the limit
	ONE_OF = 4,   // no allocation is larger than this part of the limit: an error says what it is about, and is copied while it is handled
};

static _Atomic int64_t taken; // by all bounded threads, since each of them was

static __thread int bounded, refused;
static __thread int64_t most, beyond, little, own; // bytes; own is this thread's part of taken

static int room(size_t bytes) {
	if (!bounded) return 1;
	sallyport_break_asked();
	if (sallyport_stack_ends() && !handling()) {
		errno = ENOMEM;
		return 0;
	}
	int64_t after = atomic_load_explicit(&taken, memory_order_relaxed) + (int64_t)bytes;
	if (bytes <= PTRDIFF_MAX / 2 && (int64_t)bytes <= most / ONE_OF) {
		if (after <= most || ((int64_t)bytes <= little && after <= most + beyond)) return 1;
		if (after <= HANDLING * most && handling()) return 1;
	}
	beyond += refused ? MORE : BEYOND_AT_END;
	little = LITTLE_AT_END;
	refused = 1;
	errno = ENOMEM;
	return 0;
}

static void count(int64_t bytes) {
	if (!bounded) return;
	sallyport_stack_closes();
	own += bytes;
	atomic_fetch_add_explicit(&taken, bytes, memory_order_relaxed);
}

static int64_t size(void *at) { return bounded && at ? (int64_t)malloc_usable_size(at) : 0; }
static int64_t size_own(void *at) { return bounded && at ? (int64_t)duckdb_je_malloc_usable_size(at) : 0; }

static size_t product(size_t n, size_t each) {
	size_t bytes;
	return __builtin_mul_overflow(n, each, &bytes) ? SIZE_MAX : bytes;
}

// ALLOCATOR defines malloc, calloc, realloc and free of that prefix, by those of the other one.
#define ALLOCATOR(name, real, size)                                                            \
	void *name##malloc(size_t bytes) {                                                     \
		if (!room(bytes)) return NULL;                                                 \
		void *at = real##malloc(bytes);                                                \
		count(size(at));                                                               \
		return at;                                                                     \
	}                                                                                      \
	void *name##calloc(size_t n, size_t each) {                                            \
		if (!room(product(n, each))) return NULL;                                      \
		void *at = real##calloc(n, each);                                              \
		count(size(at));                                                               \
		return at;                                                                     \
	}                                                                                      \
	void *name##realloc(void *at, size_t bytes) {                                          \
		int64_t before = size(at);                                                     \
		if (bounded && bytes > (size_t)before && !room(bytes - (size_t)before)) return NULL; \
		void *now = real##realloc(at, bytes);                                          \
		if (now || bytes == 0) count(size(now) - before);                              \
		return now;                                                                    \
	}                                                                                      \
	void name##free(void *at) {                                                            \
		count(-size(at));                                                              \
		real##free(at);                                                                \
	}

ALLOCATOR(, __libc_, size)
ALLOCATOR(__wrap_duckdb_je_, __real_duckdb_je_, size_own)

void *memalign(size_t to, size_t bytes) {
	if (!room(bytes)) return NULL;
	void *at = __libc_memalign(to, bytes);
	count(size(at));
	return at;
}

void *aligned_alloc(size_t to, size_t bytes) { return memalign(to, bytes); }

int posix_memalign(void **at, size_t to, size_t bytes) {
	if (!to || to % sizeof(void *) || (to & (to - 1))) return EINVAL;
	void *made = memalign(to, bytes);
	if (!made) return ENOMEM;
	*at = made;
	return 0;
}

void sallyport_bound(int64_t bytes) {
	most = bytes;
	beyond = BEYOND;
	little = LITTLE;
	own = 0;
	refused = 0;
	sallyport_stack_begin();
	bounded = 1;
}

int sallyport_unbound(void) {
	bounded = 0;
	atomic_fetch_sub_explicit(&taken, own, memory_order_relaxed);
	return sallyport_stack_end() ? SALLYPORT_DEPTH : refused ? SALLYPORT_MEMORY : 0;
}
