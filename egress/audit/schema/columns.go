package schema

import (
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// Version is the schema's: 1 is what there was before versions were written down.
const Version = 4

// Columns are those of a record, in their order everywhere but in the store's own table, where later ones stand behind earlier ones.
var Columns = []Column{
	ofText("proxy", "proxy", "the node id of the proxy that reports", func(r *record.Record) *string { return &r.Proxy }),
	ofNumber("epoch", "epoch", "when that proxy's spool began; `(proxy, epoch, seq)` tells records apart", func(r *record.Record) *uint64 { return &r.Epoch }),
	ofNumber("seq", "seq", "the record's number in that spool", func(r *record.Record) *uint64 { return &r.Seq }),
	ofTime("time", "time", "when the connection or request began, in UTC", func(r *record.Record) *time.Time { return &r.Time }).
		shown("TIME", len(timeLayout), timeUTC),
	ofText("class", "class", "`network`, `http`, `dns`, `gap` where records are missing, or `action` for what somebody did by a page or a command", func(r *record.Record) *record.Class { return &r.Class }),
	ofText("verdict", "verdict", "`allowed` or `denied`", func(r *record.Record) *record.Verdict { return &r.Verdict }).
		shown("VERDICT", 7, func(r *record.Record) string { return string(r.Verdict) }),
	ofText("path", "path", "the way that it took, see above", func(r *record.Record) *string { return &r.Path }).
		shown("PATH", 11, nil),
	ofText("reporter", "reporter", "`sidecar`, `gateway`, `destination` (the proxy of the pod that was reached), or `proxy`, the explicit forward proxy; of an action `console` or `command`", func(r *record.Record) *string { return &r.Reporter }),
	ofText("direction", "direction", "as seen from the mesh: `outbound`, `inbound`, or `lateral` from workload to workload", func(r *record.Record) *string { return &r.Direction }).
		since(2),
	ofText("principal", "workload.principal", "who sent it, by SPIFFE id; at a gateway from the verified certificate", func(r *record.Record) *string { return &r.Workload.Principal }),
	ofText("namespace", "workload.namespace", "the sender's namespace", func(r *record.Record) *string { return &r.Workload.Namespace }),
	ofText("service_account", "workload.serviceAccount", "the sender's service account", func(r *record.Record) *string { return &r.Workload.ServiceAccount }),
	ofText("workload", "workload.name", "the sender's pod, where it is known", func(r *record.Record) *string { return &r.Workload.Name }).
		shown("WORKLOAD", 24, workload),
	ofText("labels", "workload.labels", "that pod's labels, `key=value,…` in order, as the control plane knew them when the record came in: no proxy's word counts. 1 KiB at most", func(r *record.Record) *string { return &r.Workload.Labels }).
		since(2),
	ofText("source", "source", "the address that the connection came from", func(r *record.Record) *string { return &r.Source }),
	ofText("claim", "claim", "whom a gateway names that is not believed about others: one that neither the mesh's settings nor an object of the root namespace name. `principal` is the gateway then. Of a `destination`, whose certificate it verified; nobody else vouches for that, so no sender is told", func(r *record.Record) *string { return &r.Claim }),
	ofText("forwarded_for", "forwardedFor", "the last address in the client's `X-Forwarded-For`: anybody can write that", func(r *record.Record) *string { return &r.ForwardedFor }),
	ofText("host", "host", "the name that was tried, without its port", func(r *record.Record) *string { return &r.Host }).
		shown("HOST", 32, nil),
	ofNumber("port", "port", "the port that was tried", func(r *record.Record) *uint32 { return &r.Port }).
		shown("PORT", 5, port),
	ofText("sni", "sni", "the name in the TLS ClientHello", func(r *record.Record) *string { return &r.SNI }),
	ofText("authority", "authority", "what the client said it wanted, as it said it", func(r *record.Record) *string { return &r.Authority }),
	ofText("dialled", "dialled", "the address that the client connected to, where its own proxy saw it: with a name that is not that address's, it tried to get by", func(r *record.Record) *string { return &r.Dialled }).
		since(2),
	ofText("destination", "destination", "the address that was really connected to, or tried", func(r *record.Record) *string { return &r.Destination }).
		shown("DESTINATION", 21, nil),
	ofText("destination_principal", "destinationWorkload.principal", "who was reached, where it is a workload of the mesh and known: its SPIFFE id", func(r *record.Record) *string { return &r.DestinationWorkload.Principal }).
		since(2),
	ofText("destination_namespace", "destinationWorkload.namespace", "its namespace", func(r *record.Record) *string { return &r.DestinationWorkload.Namespace }).
		since(2),
	ofText("destination_service_account", "destinationWorkload.serviceAccount", "its service account", func(r *record.Record) *string { return &r.DestinationWorkload.ServiceAccount }).
		since(2),
	ofText("destination_workload", "destinationWorkload.name", "its pod", func(r *record.Record) *string { return &r.DestinationWorkload.Name }).
		since(2),
	ofText("destination_labels", "destinationWorkload.labels", "its labels, like `labels`", func(r *record.Record) *string { return &r.DestinationWorkload.Labels }).
		since(2),
	ofText("protocol", "protocol", "`http`, `tls`, `tcp` or `dns`", func(r *record.Record) *string { return &r.Protocol }),
	ofText("method", "method", "of a request", func(r *record.Record) *string { return &r.Method }).
		shown("METHOD/STATUS", 13, request),
	ofText("url_path", "urlPath", "of a request, without its query; of an action the page, or the command", func(r *record.Record) *string { return &r.URLPath }),
	ofNumber("status", "status", "the HTTP status that the client got", func(r *record.Record) *uint32 { return &r.Status }),
	ofText("cluster", "cluster", "Envoy's upstream cluster", func(r *record.Record) *string { return &r.Cluster }),
	ofText("route", "route", "the name of Envoy's route", func(r *record.Record) *string { return &r.Route }),
	ofText("decided_by_kind", "decidedBy.kind", "the object that decided", func(r *record.Record) *string { return &r.DecidedBy.Kind }),
	ofText("decided_by_namespace", "decidedBy.namespace", "its namespace", func(r *record.Record) *string { return &r.DecidedBy.Namespace }),
	ofText("decided_by_name", "decidedBy.name", "its name", func(r *record.Record) *string { return &r.DecidedBy.Name }).
		shown("DECIDED-BY", 28, decidedBy),
	ofText("decided_by_rule", "decidedBy.rule", "the rule in it", func(r *record.Record) *string { return &r.DecidedBy.Rule }),
	ofText("decided_by_revision", "decidedBy.revision", "tells versions of it apart: a hash of what it says ([ADR 21](../adr/0021-the-general-record.md))", func(r *record.Record) *string { return &r.DecidedBy.Revision }).
		since(2),
	ofText("reason", "reason", "why, in words", func(r *record.Record) *string { return &r.Reason }).
		shown("REASON", 0, reason),
	ofText("allowed_by_kind", "allowedBy.kind", "the policy whose rule allowed it: `EgressPolicy`, or empty where no policy said so. Of two levels' policies the one that was asked last", func(r *record.Record) *string { return &r.AllowedBy.Kind }).
		since(3),
	ofText("allowed_by_namespace", "allowedBy.namespace", "its namespace", func(r *record.Record) *string { return &r.AllowedBy.Namespace }).
		since(3),
	ofText("allowed_by_name", "allowedBy.name", "its name", func(r *record.Record) *string { return &r.AllowedBy.Name }).
		since(3),
	ofText("allowed_by_rule", "allowedBy.rule", "the rule in it, or `default`", func(r *record.Record) *string { return &r.AllowedBy.Rule }).
		since(3),
	ofText("allowed_by_revision", "allowedBy.revision", "tells versions of it apart, like `decided_by_revision`", func(r *record.Record) *string { return &r.AllowedBy.Revision }).
		since(3),
	ofText("would_deny_kind", "wouldDeny.kind", "the policy by which it would have been denied if those that are observed were enforced: `EgressPolicy`. Only where the verdict is `allowed`", func(r *record.Record) *string { return &r.WouldDeny.Kind }).
		since(3),
	ofText("would_deny_namespace", "wouldDeny.namespace", "its namespace", func(r *record.Record) *string { return &r.WouldDeny.Namespace }).
		since(3),
	ofText("would_deny_name", "wouldDeny.name", "its name", func(r *record.Record) *string { return &r.WouldDeny.Name }).
		since(3),
	ofText("would_deny_rule", "wouldDeny.rule", "the rule in it, or `default`", func(r *record.Record) *string { return &r.WouldDeny.Rule }).
		since(3),
	ofText("would_deny_revision", "wouldDeny.revision", "tells versions of it apart, like `decided_by_revision`", func(r *record.Record) *string { return &r.WouldDeny.Revision }).
		since(3),
	ofText("actor", "actor", "of an action: who did it; empty where nobody logged in", func(r *record.Record) *string { return &r.Actor }).
		since(4),
	ofText("actor_by", "actorBy", "who vouches for that name: `token` (the API server knew one), `issuer` (of identities), or `system`, the operating system of whoever called a command", func(r *record.Record) *string { return &r.ActorBy }).
		since(4),
	ofText("action", "action", "what it was: `approved`, `rejected`, `snoozed`, `login`. Workload, host and port are those that it is about", func(r *record.Record) *string { return &r.Action }).
		since(4),
	ofNumber("bytes_sent", "bytesSent", "bytes towards the client", func(r *record.Record) *uint64 { return &r.BytesSent }),
	ofNumber("bytes_received", "bytesReceived", "bytes from the client", func(r *record.Record) *uint64 { return &r.BytesReceived }),
	ofDuration("duration_ns", "durationNanos", "how long it lasted, in nanoseconds; the log keeps whole microseconds", func(r *record.Record) *time.Duration { return &r.Duration }),
	ofList("flags", "flags", "Envoy's response flags, short form", func(r *record.Record) *[]string { return &r.Flags }),
	ofNumber("lost", "count", "of a gap: how many records are missing", func(r *record.Record) *uint64 { return &r.Count }),
	ofList("cut", "cut", "fields that were too long, and end with \"…\", or labels that were left out: a record has 8 KiB at most", func(r *record.Record) *[]string { return &r.Cut }),
}

// Traffic is a condition for the records of what was sent or tried: neither gaps nor actions.
const Traffic = "class NOT IN ('" + string(record.Gap) + "', '" + string(record.Action) + "')"

// Names lists the columns.
func Names() []string {
	names := make([]string, len(Columns))
	for i := range Columns {
		names[i] = Columns[i].Name
	}
	return names
}
