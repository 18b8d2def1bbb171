// What does not look whether it was interrupted is broken off here: one call of a function that takes hours (LIKE, levenshtein), a statement that is planned for as long. Its thread
// throws an error of C++, as it does at the end of its stack (stack.c), which DuckDB says like any other one. Where it asks for memory it does so at once. Where it does
// not, a signal has it do so, if it met two in turn without having asked for any in between: what computes for a second and asks for nothing holds nothing that others wait
// for. Nothing is thrown where nobody takes it: what is there only is Go's, or of a door to C that takes no time.

#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "break.h"

struct sallyport_statement {
	pid_t thread;
	_Atomic int ending; // it is to break off
};

static __thread struct sallyport_statement own;
static __thread uint64_t asked; // how often this thread asked for memory, or gave some back
static __thread uint64_t before; // asked, when the last signal came while C ran; 0 where none did
static __thread volatile int inside; // an allocator
static __thread int broken;

// The C++ ABI's, chapter 2: how an error is made, and what is known of a thread's errors.
struct errors {
	void *caught;
	unsigned int uncaught;
};
extern struct errors *__cxa_get_globals(void);
extern void *__cxa_allocate_exception(size_t);
extern void __cxa_free_exception(void *);
extern int *__cxa_init_primary_exception(void *, void *, void (*)(void *)); // how many hold it comes first
extern void *_ZTVSt9bad_alloc[], *_ZTISt9bad_alloc[];                       // std::bad_alloc's functions, and its type
extern void _ZNSt9bad_allocD1Ev(void *);

// A function's place in the unwinder's tables; NULL of what is not C's or C++'s.
extern const void *_Unwind_Find_FDE(void *, void *found[3]);

// try_to_break throws, and returns where nobody would take it.
static void try_to_break(void) {
	struct errors *now = __cxa_get_globals();
	if (now->caught || now->uncaught) return; // it ends already
	atomic_store_explicit(&own.ending, 0, memory_order_relaxed); // the error itself asks for memory
	int was = broken;
	broken = 1;
	void **error = __cxa_allocate_exception(sizeof *error);
	*error = _ZTVSt9bad_alloc + 2;
	*__cxa_init_primary_exception(error, _ZTISt9bad_alloc, _ZNSt9bad_allocD1Ev) = 1;
	now->uncaught++;
	_Unwind_RaiseException((struct _Unwind_Exception *)error - 1);
	now->uncaught--;
	__cxa_free_exception(error);
	broken = was;
	atomic_store_explicit(&own.ending, 1, memory_order_relaxed);
}

// in_c says whether a signal came while C ran.
static int in_c(void *context) {
	void *found[3], *at = NULL;
#if defined(__x86_64__)
	at = (void *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	at = (void *)((ucontext_t *)context)->uc_mcontext.pc;
#endif
	return at && _Unwind_Find_FDE(at, found);
}

static void told(int number, siginfo_t *info, void *context) {
	(void)number, (void)info;
	if (!atomic_load_explicit(&own.ending, memory_order_relaxed) || inside || !in_c(context)) {
		before = 0;
		return;
	}
	uint64_t since = before;
	before = asked;
	if (since == asked) try_to_break();
}

// SIGNAL is one that nobody else has.
#define SIGNAL (SIGRTMAX - 5)

static void install(void) {
	// SA_NODEFER: an error leaves the handler without its return, which would let the signal come again.
	struct sigaction ours = {.sa_sigaction = told, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART};
	sigemptyset(&ours.sa_mask);
	sigaction(SIGNAL, &ours, NULL);
}

struct sallyport_statement *sallyport_break_begin(void) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, install);
	own.thread = (pid_t)syscall(SYS_gettid);
	atomic_store(&own.ending, 0);
	asked = 1;
	before = 0;
	broken = 0;
	return &own;
}

void sallyport_break_end(void) {
	atomic_store(&own.ending, 0);
	broken = 0;
}

void sallyport_break(struct sallyport_statement *statement) {
	atomic_store(&statement->ending, 1);
	syscall(SYS_tgkill, getpid(), statement->thread, SIGNAL);
}

void sallyport_break_asked(void) {
	if (atomic_load_explicit(&own.ending, memory_order_relaxed)) try_to_break();
}

void sallyport_break_inside(int more) {
	inside += more;
	asked++;
}

int sallyport_breaks(void) { return broken; }
