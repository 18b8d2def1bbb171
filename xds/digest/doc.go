// Package digest says in little what the tables of a sidecar have rows for, without the rows (docs/adr/0080-rows-by-name.md).
//
// In, at the control plane: the table and the domains of each row. Out: at most Buckets small resources and their sum, which agents take whole. To an agent
// they say of a table and a domain that no row is for it, for certain, or that one may be. Of what is registered they never say no; of what is not they say
// "may be" once in 2^RiceBits. The control plane and the agent both link it, and it imports nothing of ours.
package digest
