// Package ocsf writes audit records as events of the Open Cybersecurity Schema Framework, which a SIEM knows:
// Network Activity (4001), HTTP Activity (4002), DNS Activity (4003), and Base Event (0) for a gap.
//
// In: a record. Out: an Event, to be encoded as JSON. Version 1.8.0 of the schema, profiles host, network_proxy and
// security_control; what the schema has no word for is under "unmapped". (Version 2 of the schema folds 4002 and 4003
// into 4001; consumers choose by metadata.version.)
package ocsf
