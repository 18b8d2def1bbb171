// Package seen gives what workloads were seen to do: the audit log, added up.
//
// In: a source of the log (egress/audit/query) and a window of time. Out: a Log of flows, each with its evidence, and of HTTP the
// methods with templates of the paths. What it asks the log is in read.go, and nowhere else.
//
// Texts in a flow are as the log has them: clients write host names, methods and paths. Whoever shows them, or makes objects of them,
// judges them first.
package seen
