package protobuf

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// ReadRecord reads the body of a Record. Its texts are parts of body, those that are no UTF-8 are mended. What a newer writer says beside is
// left out.
func ReadRecord(body string, r *record.Record) error {
	*r = record.Record{}
	var second, nano int64
	f := Scan(body)
	for f.Next() {
		if f.Tag&7 == Bytes && !utf8.ValidString(f.Text) {
			f.Text = strings.ToValidUTF8(f.Text, "\uFFFD")
		}
		switch f.Tag {
		case proxy:
			r.Proxy = f.Text
		case epoch:
			r.Epoch = f.Uint
		case seq:
			r.Seq = f.Uint
		case seconds:
			second = int64(f.Uint)
		case nanos:
			nano = int64(int32(f.Uint))
		case class:
			r.Class = record.Class(f.Text)
		case verdict:
			r.Verdict = record.Verdict(f.Text)
		case path:
			r.Path = f.Text
		case reporter:
			r.Reporter = f.Text
		case direction:
			r.Direction = f.Text
		case source:
			r.Source = f.Text
		case claim:
			r.Claim = f.Text
		case forwardedFor:
			r.ForwardedFor = f.Text
		case reason:
			r.Reason = f.Text
		case bytesSent:
			r.BytesSent = f.Uint
		case bytesReceived:
			r.BytesReceived = f.Uint
		case durationNanos:
			r.Duration = time.Duration(f.Uint)
		case flags:
			r.Flags = append(r.Flags, f.Text)
		case lost:
			r.Count = f.Uint
		case cut:
			r.Cut = append(r.Cut, f.Text)
		default:
			readWhom(&f, r)
		}
	}
	r.Time = time.Unix(second, nano).UTC()
	return f.Err()
}

// readWhom reads who sent what to whom.
func readWhom(f *Fields, r *record.Record) {
	switch f.Tag {
	case principal:
		r.Workload.Principal = f.Text
	case namespace:
		r.Workload.Namespace = f.Text
	case serviceAccount:
		r.Workload.ServiceAccount = f.Text
	case workloadName:
		r.Workload.Name = f.Text
	case labels:
		r.Workload.Labels = f.Text
	case destinationPrincipal:
		r.DestinationWorkload.Principal = f.Text
	case destinationNamespace:
		r.DestinationWorkload.Namespace = f.Text
	case destinationServiceAccount:
		r.DestinationWorkload.ServiceAccount = f.Text
	case destinationName:
		r.DestinationWorkload.Name = f.Text
	case destinationLabels:
		r.DestinationWorkload.Labels = f.Text
	case host:
		r.Host = f.Text
	case port:
		r.Port = uint32(f.Uint)
	case sni:
		r.SNI = f.Text
	case authority:
		r.Authority = f.Text
	case dialled:
		r.Dialled = f.Text
	case destination:
		r.Destination = f.Text
	default:
		readHow(f, r)
	}
}

// readHow reads what was asked for and what decided.
func readHow(f *Fields, r *record.Record) {
	switch f.Tag {
	case protocol:
		r.Protocol = f.Text
	case method:
		r.Method = f.Text
	case urlPath:
		r.URLPath = f.Text
	case status:
		r.Status = uint32(f.Uint)
	case cluster:
		r.Cluster = f.Text
	case route:
		r.Route = f.Text
	case decidedByKind:
		r.DecidedBy.Kind = f.Text
	case decidedByNamespace:
		r.DecidedBy.Namespace = f.Text
	case decidedByName:
		r.DecidedBy.Name = f.Text
	case decidedByRule:
		r.DecidedBy.Rule = f.Text
	case decidedByRevision:
		r.DecidedBy.Revision = f.Text
	default:
		readRules(f, r)
	}
}

// readRules reads which rules of policies it met beside the one that decided.
func readRules(f *Fields, r *record.Record) {
	switch f.Tag {
	case allowedByKind:
		r.AllowedBy.Kind = f.Text
	case allowedByNamespace:
		r.AllowedBy.Namespace = f.Text
	case allowedByName:
		r.AllowedBy.Name = f.Text
	case allowedByRule:
		r.AllowedBy.Rule = f.Text
	case allowedByRevision:
		r.AllowedBy.Revision = f.Text
	case wouldDenyKind:
		r.WouldDeny.Kind = f.Text
	case wouldDenyNamespace:
		r.WouldDeny.Namespace = f.Text
	case wouldDenyName:
		r.WouldDeny.Name = f.Text
	case wouldDenyRule:
		r.WouldDeny.Rule = f.Text
	case wouldDenyRevision:
		r.WouldDeny.Revision = f.Text
	case actor:
		r.Actor = f.Text
	case actorBy:
		r.ActorBy = f.Text
	case action:
		r.Action = f.Text
	}
}
