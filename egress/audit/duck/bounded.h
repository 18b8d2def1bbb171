#include <stdint.h>

// sallyport_bound has this thread's allocations fail where those of all bounded threads come to more bytes.
void sallyport_bound(int64_t bytes);

// sallyport_unbound ends that; it is 1 where one failed.
int sallyport_unbound(void);
