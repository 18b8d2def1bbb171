// Package watch runs detections again and again, and sends what they find: each finding once, and while it goes on no more often than asked.
//
// In: a log, what to look for (Plan), sinks. Out: messages, log lines, metrics. What was sent is kept in a file (state.go), written after a sink
// has taken it: whatever ends the process, a finding is sent again at worst once, and never lost while it is in the window.
//
// One pass at a time, one rule at a time, with a rest after each rule as long as it took: the log's own work comes first.
package watch
