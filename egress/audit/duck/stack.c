// What a statement needs of the stack is bounded here: DuckDB goes as deep into values (JSON, patterns of LIKE, types of lists) as whoever wrote them nested
// them, and a stack that has no room left ends the program. So a thread that runs a statement is told that there is no memory left, which DuckDB says like any other
// error, by one of two ways. Where it asks for memory close to the end of its stack, it gets none (bounded.c). Where it goes on without asking, it meets pages that it
// may not touch, and the signal of that is turned into the same C++ error, thrown from where it was met.

#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

#include "break.h"
#include "stack.h"

// Of the lower end of a stack, in bytes: what is not touched, of which the upper half is given to whoever ends what was nested too deep; and how far above it no memory is
// given any more. A stack smaller than LEAST is left as it is.
enum { CLOSED = 512 << 10, GIVEN = CLOSED / 2, NEAR = 128 << 10, LEAST = 1 << 20 };

static __thread char *low; // of this thread's stack
static __thread char *end; // of what it may use; NULL where it may use all
static __thread int opened, deep;

static struct sigaction others; // who had the signal before

extern void _ZSt17__throw_bad_allocv(void) __attribute__((noreturn)); // std::__throw_bad_alloc

static int protect(int how) { return mprotect(end - GIVEN, GIVEN, how); }

static void met(int number, siginfo_t *info, void *context) {
	char *at = info->si_addr;
	if (end && !opened && at < end && at >= end - CLOSED && protect(PROT_READ | PROT_WRITE) == 0) {
		opened = deep = 1;
		_ZSt17__throw_bad_allocv();
	}
	if (others.sa_flags & SA_SIGINFO) {
		others.sa_sigaction(number, info, context);
		return;
	}
	signal(number, SIG_DFL); // it is met again
}

static void install(void) {
	// SA_NODEFER: an error leaves the handler without its return, which would let the signal come again.
	struct sigaction ours = {.sa_sigaction = met, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
	sigemptyset(&ours.sa_mask);
	sigaction(SIGSEGV, &ours, &others);
}

// find says where this thread's stack begins; NULL where it is too small to be divided, or nobody knows.
static char *find(void) {
	pthread_attr_t of;
	void *at;
	size_t size;
	if (pthread_getattr_np(pthread_self(), &of)) return NULL;
	int known = pthread_attr_getstack(&of, &at, &size) == 0 && size >= LEAST;
	pthread_attr_destroy(&of);
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	return known ? (char *)(((uintptr_t)at + page - 1) & ~(page - 1)) : NULL;
}

void sallyport_stack_begin(void) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, install);
	opened = deep = 0;
	if (!low) low = find();
	if (low && mprotect(low, CLOSED, PROT_NONE) == 0) end = low + CLOSED;
}

int sallyport_stack_end(void) {
	if (end) mprotect(low, CLOSED, PROT_READ | PROT_WRITE);
	end = NULL;
	int was = deep;
	deep = 0;
	return was;
}

static int close_to_the_end(void) { return end && (char *)__builtin_frame_address(0) - end < NEAR; }

int sallyport_stack_ends(void) {
	if (!close_to_the_end()) return 0;
	deep = 1;
	return 1;
}

void sallyport_stack_closes(void) {
	if (opened && !close_to_the_end() && protect(PROT_NONE) == 0) opened = 0;
}

static uint64_t uleb128(const unsigned char **at) {
	uint64_t out = 0;
	int shift = 0;
	unsigned char byte;
	do {
		byte = *(*at)++;
		out |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	return out;
}

// DWARF's ways to write a number in a table of calls (DW_EH_PE_).
enum { OMIT = 0xff, ULEB128 = 0x01, UDATA4 = 0x03 };

static uint64_t number(unsigned char encoding, const unsigned char **at) {
	if (encoding == ULEB128) return uleb128(at);
	uint32_t out;
	memcpy(&out, *at, sizeof out);
	*at += sizeof out;
	return out;
}

// throws says whether a function has an instruction in its table of calls, which says what it has to undo where an error comes from there.
static int throws(struct _Unwind_Context *function, uintptr_t instruction) {
	const unsigned char *table = (const unsigned char *)_Unwind_GetLanguageSpecificData(function);
	if (!table || *table++ != OMIT) return 1;
	if (*table++ != OMIT) uleb128(&table);
	unsigned char encoding = *table++;
	if (encoding != ULEB128 && encoding != UDATA4) return 1;
	uint64_t length = uleb128(&table), after = instruction - _Unwind_GetRegionStart(function);
	for (const unsigned char *last = table + length; table < last;) {
		uint64_t from = number(encoding, &table), bytes = number(encoding, &table);
		number(encoding, &table);
		uleb128(&table);
		if (after >= from && after - from < bytes) return 1;
	}
	return 0;
}

// C++ asks this for each function that an error goes through. Where a function calls what cannot throw, or calls nothing and only begins, it has no word of what to undo, and C++ would
// end the program. An error of the stack's may come from there all the same, and so may one of who is broken off; what such a function holds is lost then.
extern _Unwind_Reason_Code __real___gxx_personality_v0(int, _Unwind_Action, _Unwind_Exception_Class, struct _Unwind_Exception *, struct _Unwind_Context *);

_Unwind_Reason_Code __wrap___gxx_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class class, struct _Unwind_Exception *error,
	struct _Unwind_Context *function) {
	if (deep || sallyport_breaks()) {
		int interrupted = 0;
		uintptr_t at = _Unwind_GetIPInfo(function, &interrupted);
		if (!throws(function, at - !interrupted)) return _URC_CONTINUE_UNWIND;
	}
	return __real___gxx_personality_v0(version, actions, class, error, function);
}
