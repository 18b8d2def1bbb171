// Command demo tells the story of package story on this machine and shows for each step whether it holds.
//
// It needs what `make build envoy` leaves in bin/. With root it makes hosts of network namespaces; without, it plays
// on loopback and says which steps need more. Ctrl-C at any point removes everything that it made.
package main
