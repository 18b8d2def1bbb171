// A statement of a thread that others may break off.
struct sallyport_statement;

// sallyport_break_begin has what this thread runs break off once somebody says so, until sallyport_break_end.
struct sallyport_statement *sallyport_break_begin(void);
void sallyport_break_end(void);

// sallyport_break tells a thread to break off what it runs, where it next asks for memory: by an error in C++, like one of memory.
void sallyport_break(struct sallyport_statement *);

// Of this thread: sallyport_break_asked is called before it is given memory, and does not return where it is to break off; sallyport_breaks says whether it was broken off.
void sallyport_break_asked(void);
int sallyport_breaks(void);
