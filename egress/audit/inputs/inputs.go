// Package inputs has what the audit log says was asked for: records without what differs from one to the next.
//
// In: nothing; out: plain values. The store gathers them from its records as those come in (egress/audit/store), and a query.Source
// gives them: what reads a month of traffic reads each distinct input once, with its count.
//
// It imports the record only.
package inputs

import (
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// Question is who asked for what. Equal ones were asked by replicas of one workload, of the same thing.
type Question struct {
	Namespace      string
	ServiceAccount string
	// Workload is the pod's name without what tells replicas apart: "cart" of cart-6d5f7c9b4-x2x7k, cart-x2x7k and cart-0.
	Workload string
	Labels   string // see record.Workload
	Claim    string // see record.Record

	Reporter  string
	Direction string
	Class     record.Class
	Protocol  string
	Host      string
	SNI       string // where it is not the host
	Port      uint32
	Method    string
	URLPath   string
	Dialled   string

	Cut string // the fields of the records that were too long, by comma
	// Beyond says what is left out, since there was too much of it: "" for nothing, BeyondPaths or BeyondHosts.
	Beyond string
}

// What is left out of a day's inputs, whose records are counted all the same.
const (
	// BeyondPaths leaves out URLPath and Dialled: those that came most often are kept.
	BeyondPaths = "paths"
	// BeyondHosts leaves out all but the sender's namespace and account, and the verdict.
	BeyondHosts = "hosts"
)

// Outcome is what became of it. The objects have their revisions.
type Outcome struct {
	Verdict                         record.Verdict
	Path                            string
	DecidedBy, AllowedBy, WouldDeny record.Object
	Reason                          string // only of what was denied by no object, and never of DNS
}

// Input is a question, what became of it, and the records that say so. A question that had several outcomes is several inputs.
// Those of class gap stand for records that are missing.
type Input struct {
	Question
	Outcome
	Count       uint64 // records
	Lost        uint64 // of gaps: how many records are missing
	First, Last time.Time
	Days        uint32 // of UTC, on which there were records; 126 at most
	// Replicas is the greatest number of different pods among the records that were gathered at one time: there were at least so many.
	Replicas                 uint32
	BytesSent, BytesReceived uint64
}

// IsCut says whether a field of the records, by its name in their JSON, was too long.
func (q *Question) IsCut(field string) bool {
	for name := range strings.SplitSeq(q.Cut, ",") {
		if name == field {
			return true
		}
	}
	return false
}
