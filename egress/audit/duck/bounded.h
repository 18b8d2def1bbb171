#include <stdint.h>

// What a thread was refused.
enum { SALLYPORT_MEMORY = 1, SALLYPORT_DEPTH = 2 };

// sallyport_bound has this thread's allocations fail where those of all bounded threads come to more bytes, and where its stack ends.
void sallyport_bound(int64_t bytes);

// sallyport_unbound ends that, and says what was refused; 0 where nothing was.
int sallyport_unbound(void);
