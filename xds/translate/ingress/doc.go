// Package ingress renders what gateways do by which others come into the mesh: a listener for each port that Gateway objects open,
// a table for each protocol there, a row of it for each name, and a cluster for each host of the mesh that routes lead to.
package ingress
