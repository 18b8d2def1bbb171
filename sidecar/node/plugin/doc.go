// Package plugin puts the node's CNI plugin into the configuration that the container runtime reads, keeps it there and takes it away.
//
// In: the folders of the runtime's plugins and their configuration. Out: this program among the plugins, and an entry for it at the end of
// the list that the runtime uses (list.go), written again when somebody else rewrites the list (install.go). Files change as a whole or not at all.
package plugin
