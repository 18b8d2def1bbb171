// Package world makes hosts out of network namespaces, and processes that live in them.
//
// In: names and addresses of the hosts that a story needs. Out: a World, with hosts that can start processes,
// open sockets and be listened to on the wire. Everything of a run carries its process id in its name
// (namespaces "sp-PID-HOST", with a number behind the id where a process has several runs), nothing is added to the namespace that the run was started in, and Close removes all
// of it. What a run that died left behind is reclaimed by the next one.
//
// It knows nothing of Sallyport and imports nothing of this module.
package world
