// What C++ knows of a thread's errors (the ABI's 2.2.2).
struct errors {
	void *caught;
	unsigned int uncaught;
};
extern struct errors *__cxa_get_globals(void);

// handling says whether this thread has thrown one that is not done with.
static inline int handling(void) {
	struct errors *now = __cxa_get_globals();
	return now->caught || now->uncaught;
}
