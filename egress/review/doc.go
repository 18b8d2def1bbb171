// Package review keeps what people decided about what was seen first: which workload, host and port was approved, rejected or put off, by whom, when and why.
//
// In: what waits for a word (egress/suggest), and decisions. Out: a list of items with their states, and a file of decisions, one a line, that survives
// kill -9 and a full disk, and in which two reviewers do not lose each other's word.
package review
