// What does not look whether it was interrupted is broken off here where it asks for memory, as a statement does that is planned for hours: its thread throws an error of C++, as it
// does at the end of its stack (stack.c), which DuckDB says like any other one. Nothing is thrown where nobody takes it: what is there only is Go's, or of a door to C that
// takes no time. What asks for no memory goes on: an error that a signal throws may come between any two instructions, and whoever takes errors expects them from calls alone.

#include <stdatomic.h>
#include <stddef.h>
#include <unwind.h>

#include "break.h"
#include "errors.h"

struct sallyport_statement {
	_Atomic int ending; // it is to break off
};

static __thread struct sallyport_statement own;
static __thread int broken;

// The C++ ABI's, chapter 2: how an error is made.
extern void *__cxa_allocate_exception(size_t);
extern void __cxa_free_exception(void *);
extern int *__cxa_init_primary_exception(void *, void *, void (*)(void *)); // how many hold it comes first
extern void *_ZTVSt9bad_alloc[], *_ZTISt9bad_alloc[];                       // std::bad_alloc's functions, and its type
extern void _ZNSt9bad_allocD1Ev(void *);

// try_to_break throws, and returns where nobody would take it.
static void try_to_break(void) {
	if (handling()) return; // it ends already
	atomic_store_explicit(&own.ending, 0, memory_order_relaxed); // the error itself asks for memory
	int was = broken;
	broken = 1;
	void **error = __cxa_allocate_exception(sizeof *error);
	*error = _ZTVSt9bad_alloc + 2;
	*__cxa_init_primary_exception(error, _ZTISt9bad_alloc, _ZNSt9bad_allocD1Ev) = 1;
	struct errors *now = __cxa_get_globals();
	now->uncaught++;
	_Unwind_RaiseException((struct _Unwind_Exception *)error - 1);
	now->uncaught--;
	__cxa_free_exception(error);
	broken = was;
	atomic_store_explicit(&own.ending, 1, memory_order_relaxed);
}

struct sallyport_statement *sallyport_break_begin(void) {
	atomic_store(&own.ending, 0);
	broken = 0;
	return &own;
}

void sallyport_break_end(void) {
	atomic_store(&own.ending, 0);
	broken = 0;
}

void sallyport_break(struct sallyport_statement *statement) { atomic_store(&statement->ending, 1); }

void sallyport_break_asked(void) {
	if (atomic_load_explicit(&own.ending, memory_order_relaxed)) try_to_break();
}

int sallyport_breaks(void) { return broken; }
