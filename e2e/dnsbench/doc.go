// Command dnsbench measures what a question to `sallyport-agent dns` costs, side by side with unbound, dnsmasq and
// CoreDNS in one run, and what the machine gives at all: servers that send each datagram back.
//
// In: the programs, by flags. Out: a table with its targets on stdout and, with -doc, in a Markdown file; exit code 1
// when a target is missed. Every server runs on one core and everything that loads it on another. The rounds are
// interleaved and the medians are reported, since other work on the machine comes and goes.
//
// The same program is the upstream resolver that answers at once (`dnsbench authority`), the servers that send back
// (`dnsbench echo`) and the client that measures single questions (`dnsbench ask`). It imports nothing of this module.
package main
