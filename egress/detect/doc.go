// Package detect looks for what should not be in the audit log.
//
// In: rules, which are SQL files with a header (rules/*.sql, and a folder of the user's), and a Log that answers one SELECT: a
// database file, or an audit server near or far. Out: a Report of findings, all of the same form, as a table, JSON or OCSF.
//
// A rule is a SELECT over the views traffic and past (bind.go) and the table records. It runs as any other statement of
// "sallyport audit sql" does: in a transaction that cannot write, in time and rows that are bounded. Package watch runs the rules again and again.
//
// It knows neither configuration nor proxies: what it needs of them it is given (Inputs).
package detect
