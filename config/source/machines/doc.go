// Package machines keeps the WorkloadEntries of machines whose proxies are connected, and lets them go when those have been away for a while.
//
// In: which proxies came and went (Came, Went), how their machines are (Tell), and the WorkloadGroups (Apply). Out: entries that stand, or
// are to go, to a Store: on disk and into the configuration (Disk), where there is no API server. What it does follows from what it knows, whatever
// order that came in; what a Store could not do is tried again.
package machines
