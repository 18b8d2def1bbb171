package ingest

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sallyport/sallyport/egress/audit/ingest/ingestpb"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// message is a record as it travels. Texts that are no UTF-8, which clients may write into a request, would keep their whole batch from being sent.
func message(r *record.Record) *ingestpb.Record {
	return &ingestpb.Record{
		Proxy:                     valid(r.Proxy),
		Epoch:                     r.Epoch,
		Seq:                       r.Seq,
		Seconds:                   r.Time.Unix(),
		Nanos:                     int32(r.Time.Nanosecond()),
		Class:                     valid(string(r.Class)),
		Verdict:                   valid(string(r.Verdict)),
		Path:                      valid(r.Path),
		Reporter:                  valid(r.Reporter),
		Direction:                 valid(r.Direction),
		Principal:                 valid(r.Workload.Principal),
		Namespace:                 valid(r.Workload.Namespace),
		ServiceAccount:            valid(r.Workload.ServiceAccount),
		Workload:                  valid(r.Workload.Name),
		Labels:                    valid(r.Workload.Labels),
		Source:                    valid(r.Source),
		Claim:                     valid(r.Claim),
		ForwardedFor:              valid(r.ForwardedFor),
		Host:                      valid(r.Host),
		Port:                      r.Port,
		Sni:                       valid(r.SNI),
		Authority:                 valid(r.Authority),
		Dialled:                   valid(r.Dialled),
		Destination:               valid(r.Destination),
		DestinationPrincipal:      valid(r.DestinationWorkload.Principal),
		DestinationNamespace:      valid(r.DestinationWorkload.Namespace),
		DestinationServiceAccount: valid(r.DestinationWorkload.ServiceAccount),
		DestinationWorkload:       valid(r.DestinationWorkload.Name),
		DestinationLabels:         valid(r.DestinationWorkload.Labels),
		Protocol:                  valid(r.Protocol),
		Method:                    valid(r.Method),
		UrlPath:                   valid(r.URLPath),
		Status:                    r.Status,
		Cluster:                   valid(r.Cluster),
		Route:                     valid(r.Route),
		DecidedByKind:             valid(r.DecidedBy.Kind),
		DecidedByNamespace:        valid(r.DecidedBy.Namespace),
		DecidedByName:             valid(r.DecidedBy.Name),
		DecidedByRule:             valid(r.DecidedBy.Rule),
		DecidedByRevision:         valid(r.DecidedBy.Revision),
		Reason:                    valid(r.Reason),
		BytesSent:                 r.BytesSent,
		BytesReceived:             r.BytesReceived,
		DurationNs:                int64(r.Duration),
		Flags:                     allValid(r.Flags),
		Lost:                      r.Count,
		Cut:                       allValid(r.Cut),
	}
}

// fromMessage is the record again. Its class and the rest of it are judged later.
func fromMessage(m *ingestpb.Record) (r record.Record) {
	r.Proxy = m.Proxy
	r.Epoch = m.Epoch
	r.Seq = m.Seq
	r.Time = time.Unix(m.Seconds, int64(m.Nanos)).UTC()
	r.Class = record.Class(m.Class)
	r.Verdict = record.Verdict(m.Verdict)
	r.Path = m.Path
	r.Reporter = m.Reporter
	r.Direction = m.Direction
	r.Workload.Principal = m.Principal
	r.Workload.Namespace = m.Namespace
	r.Workload.ServiceAccount = m.ServiceAccount
	r.Workload.Name = m.Workload
	r.Workload.Labels = m.Labels
	r.Source = m.Source
	r.Claim = m.Claim
	r.ForwardedFor = m.ForwardedFor
	r.Host = m.Host
	r.Port = m.Port
	r.SNI = m.Sni
	r.Authority = m.Authority
	r.Dialled = m.Dialled
	r.Destination = m.Destination
	r.DestinationWorkload.Principal = m.DestinationPrincipal
	r.DestinationWorkload.Namespace = m.DestinationNamespace
	r.DestinationWorkload.ServiceAccount = m.DestinationServiceAccount
	r.DestinationWorkload.Name = m.DestinationWorkload
	r.DestinationWorkload.Labels = m.DestinationLabels
	r.Protocol = m.Protocol
	r.Method = m.Method
	r.URLPath = m.UrlPath
	r.Status = m.Status
	r.Cluster = m.Cluster
	r.Route = m.Route
	r.DecidedBy.Kind = m.DecidedByKind
	r.DecidedBy.Namespace = m.DecidedByNamespace
	r.DecidedBy.Name = m.DecidedByName
	r.DecidedBy.Rule = m.DecidedByRule
	r.DecidedBy.Revision = m.DecidedByRevision
	r.Reason = m.Reason
	r.BytesSent = m.BytesSent
	r.BytesReceived = m.BytesReceived
	r.Duration = time.Duration(m.DurationNs)
	r.Flags = m.Flags
	r.Count = m.Lost
	r.Cut = m.Cut
	return r
}

func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func allValid(list []string) []string {
	for i, s := range list {
		if !utf8.ValidString(s) {
			list = append([]string(nil), list...)
			for j := i; j < len(list); j++ {
				list[j] = valid(list[j])
			}
			break
		}
	}
	return list
}
