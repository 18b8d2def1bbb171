// Package waypoint renders what waypoints do: proxies that stand before Services of the mesh, for pods without sidecars.
//
// In: serviceentry/resolve's view of the Services, as a workload of the waypoint's namespace reaches them, and the AuthorizationPolicies that
// target them. Out: one listener, with a chain for each of the Services' ports, for clients whose TLS says which it is for; a table for HBONE, with a row
// for each of their addresses; for each port that reads requests, its routes; and the clusters that these lead to, which are a sidecar's.
package waypoint
