// Package pemfile keeps keys and certificates in PEM files: whole or not at all, and made once however many
// processes start at the same time.
//
// In: keys, certificates, paths. Out: files, and the same values read back. It imports only the standard library,
// and its errors never hold a file's content.
package pemfile
