// Package suggest makes objects of what was seen: ServiceEntries that register hosts, and EgressPolicies that allow each workload what it
// did and no more; and says which of those in force nobody uses.
//
// In: the configuration in force, the Log of what was seen (egress/seen), and options. Out: a Result: objects, each with evidence, what is
// left out, and why. Nothing is written anywhere.
//
// What is suggested is held to three things before it is given out: admission takes it; everything that was seen allowed, and is
// today, is allowed with it applied, by the same Decide that explain asks; and no text that clients wrote is in it but host names, methods and
// paths that were judged (names.go).
package suggest
