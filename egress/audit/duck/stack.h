#include <pthread.h>

// sallyport_stack_begin has what this thread runs end with std::bad_alloc where it would be nested deeper than its stack has room for.
void sallyport_stack_begin(void);

// sallyport_stack_end ends that; it is 1 where something was.
int sallyport_stack_end(void);

// sallyport_stack_ends says whether so little of the stack is left that nothing is to be begun that needs some.
int sallyport_stack_ends(void);

// sallyport_stack_closes takes back what was given to end what was nested too deep, once it has ended.
void sallyport_stack_closes(void);
