// Package table writes tables for terminals, spreadsheets and pages. In come texts, out goes a document.
package table

// Table is rows of texts below heads. Verdict is the number of the column that says allow, deny or depends; -1 without one.
type Table struct {
	Title, Description string
	Heads              []string
	Rows               [][]string
	Verdict            int
}
