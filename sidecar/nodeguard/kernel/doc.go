// Package kernel makes nftables agree with a node guard's plan, in the network namespace of the process.
//
// In: plans and changes from package nodeguard. Out: one table, [nodeguard.Table] of family inet, which is replaced as a whole
// or changed by elements, each in one netlink transaction: no packet meets half of it. The table belongs to no process, so it
// stays when this one ends, however that happens; [Table.Clean] takes it away. Also out: its counters, and samples of
// what was refused ([Listen]).
//
// It runs no program. It must not import anything but package nodeguard of this module.
package kernel
