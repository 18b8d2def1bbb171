// Package story tells how traffic leaves a mesh, as an ordered list of steps that anybody can check: real programs,
// real Envoys, real names and certificates, on hosts made of namespaces or, without root, on loopback.
//
// In: the programs of bin/ and a run of package world. Out: for each step an error or the evidence that it holds.
// The programs are used by their command lines only; of the module it imports the audit record's type, because that
// is what `audit query -o json` prints.
package story
