// Package inside says which addresses are not for strangers: what a proxy may reach, and nobody should reach through it
// who could not anyway. Resolvers ask it about DNS answers, the control plane about addresses that objects write.
//
// In: an address, and a list of what is allowed all the same. Out: whether it is refused. It imports only the standard
// library.
package inside
