// A statement of a thread that others may break off.
struct sallyport_statement;

// sallyport_break_begin has what this thread runs break off once somebody says so, until sallyport_break_end.
struct sallyport_statement *sallyport_break_begin(void);
void sallyport_break_end(void);

// sallyport_break tells a thread to break off what it runs: by an error in C++, like one of memory. It is to be said again, a second later, until the thread
// ended it: what asks for no memory is broken off when it is told again, and asked for none meanwhile.
void sallyport_break(struct sallyport_statement *);

// Of this thread: sallyport_break_asked is called before it is given memory, and does not return where it is to break off; sallyport_break_inside around that and around giving
// it back; and sallyport_breaks says whether it was broken off.
void sallyport_break_asked(void);
void sallyport_break_inside(int more);
int sallyport_breaks(void);
