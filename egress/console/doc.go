// Package console is the audit log's web page.
//
// In: a database to read (query). Out: one page and its JSON. The page loads nothing from elsewhere, has no inline
// script or style, and writes what it shows as text, never as markup: host names are what an attacker chose. There is
// no login: it listens on loopback by default, and then refuses requests whose Host is another name, which is what a
// DNS rebinding attack sends.
package console
