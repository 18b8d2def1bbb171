// Package pair keeps the stores of two audit servers alike, so that either may go at any moment and the other has the log.
//
// In: a store, and a connection to the other server. Out: each record that proxies, or people, handed in here is there as well before it is
// acknowledged (Link.Store), while the other server is in step; while it is away it gets what it lacks when it is back. What came from the
// other server is not sent back. The store is the queue, as it is for package sink: a mark, in a file, says up to which moment the other one
// has what came in. Copies are told by (proxy, epoch, seq), so that a record that both got is in each once.
//
// A server that begins answers nobody before it has what the other one took meanwhile (Link.Whole).
package pair
