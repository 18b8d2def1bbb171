// Package console is the audit log's web pages.
//
// In: a database to read, and what there is beside it: the configuration in force, the folder of decisions, what detections found. Out: pages
// that are made on the server, which work without scripts, and files to download. What is chosen is in the address, in the language of
// query.Expression. The pages load nothing from elsewhere, have no inline script or style, and write what they show as text, never as markup:
// host names are what an attacker chose. On loopback there is no login, and it refuses requests whose Host is another
// name, which is what a DNS rebinding attack sends; what changes something is taken from its own pages only (docs/adr/0041-the-console-is-pages.md).
package console
