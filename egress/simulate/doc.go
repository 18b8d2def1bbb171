// Package simulate asks what was asked for again, under a changed configuration: what the change would newly deny and allow.
//
// In: the configuration as it is and as it would be (registry snapshots), and the inputs of the audit log. Out: a Report. Each question is
// put to policy.Decide, which proxies are held to, once on either side. Where what the log says became of it is not what Decide says of the
// configuration as it is, or where that depends on what the log does not hold, the question is not reproducible: it is counted, with why,
// and no answer is given.
//
// It knows no store and no command line; who shows reports is package report.
package simulate
