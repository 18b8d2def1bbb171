package ocsf

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// SchemaVersion is the version of OCSF that the events follow.
const SchemaVersion = "1.8.0"

// Profiles are those of the schema that the events have.
var Profiles = []string{"host", "network_proxy", "security_control"}

// FromRecord writes a record as an event.
func FromRecord(r record.Record) Event {
	e := Event{
		Time:       r.Time.UnixMilli(),
		SeverityID: 1, Severity: "Informational",
		Metadata: Metadata{
			Version:  SchemaVersion,
			Product:  Product{Name: "Sallyport", VendorName: "Sallyport"},
			Profiles: Profiles,
			UID:      fmt.Sprintf("%s/%d/%d", r.Proxy, r.Epoch, r.Seq),
			Sequence: r.Seq,
		},
		ProxyEndpoint: &Endpoint{Name: r.Proxy},
		Actor:         actor(r.Workload),
		Unmapped:      unmapped(r),
	}
	if r.Duration > 0 {
		e.Duration, e.EndTime = r.Duration.Milliseconds(), r.Time.Add(r.Duration).UnixMilli()
	}
	if r.Class == record.Gap {
		return gap(e, r)
	}
	if r.Class == record.Action {
		return action(e, r)
	}
	e.CategoryUID, e.CategoryName = 4, "Network Activity"
	e.setVerdict(r)
	e.setEndpoints(r)
	switch r.Class {
	case record.HTTP:
		e.setHTTP(r)
	case record.DNS:
		e.setDNS(r)
	default:
		e.setNetwork(r)
	}
	return e
}

// classify fills in the class, the activity and what follows from them.
func (e *Event) classify(uid int, name string, activity int, activityName string) {
	e.ClassUID, e.ClassName = uid, name
	e.ActivityID, e.ActivityName = activity, activityName
	e.TypeUID, e.TypeName = uid*100+activity, name+": "+activityName
}

func gap(e Event, r record.Record) Event {
	e.classify(0, "Base Event", 99, "Audit Records Lost")
	e.CategoryName = "Uncategorized"
	e.ProxyEndpoint = nil // the class has none
	e.Unmapped["proxy"] = r.Proxy
	e.SeverityID, e.Severity = 3, "Medium"
	e.Count = r.Count
	e.Message = fmt.Sprintf("%d audit records of %s are missing: %s", r.Count, r.Proxy, r.Reason)
	return e
}

// action is what somebody did by a page or a command.
func action(e Event, r record.Record) Event {
	e.classify(6003, "API Activity", 99, r.Action)
	e.CategoryUID, e.CategoryName = 6, "Application Activity"
	e.ProxyEndpoint = nil // the class has none
	e.Actor = &Actor{User{Name: r.Actor, Type: "User", TypeID: 1}}
	if r.Actor == "" {
		e.Actor.User = User{Name: record.NotLoggedIn, Type: "Unknown"}
	}
	e.API = &API{Operation: r.Action, Service: Service{Name: "sallyport " + r.Reporter}}
	if e.SrcEndpoint = named(endpoint(r.Source)); e.SrcEndpoint == nil {
		e.SrcEndpoint = &Endpoint{Name: r.Proxy}
	}
	for key, value := range map[string]string{"host": r.Host, "service_account": r.Workload.ServiceAccount, "url_path": r.URLPath} {
		if value != "" {
			e.Unmapped[key] = value
		}
	}
	if r.Port != 0 {
		e.Unmapped["port"] = strconv.FormatUint(uint64(r.Port), 10)
	}
	e.Message = r.Deed()
	return e
}

func (e *Event) setVerdict(r record.Record) {
	switch {
	case r.Verdict == record.Allowed && !r.WouldDeny.IsZero():
		e.ActionID, e.Action, e.DispositionID, e.Disposition = 3, "Observed", 17, "Logged"
	case r.Verdict == record.Allowed:
		e.ActionID, e.Action, e.DispositionID, e.Disposition = 1, "Allowed", 1, "Allowed"
	case r.Verdict == record.Denied:
		e.ActionID, e.Action, e.DispositionID, e.Disposition = 2, "Denied", 2, "Blocked"
		e.SeverityID, e.Severity = 2, "Low"
	}
	e.Message = r.Reason
	e.Policy = policy(r)
	if d := r.DecidedBy; d.Name != "" || d.Rule != "" {
		name := d.Name
		if d.Namespace != "" {
			name = d.Namespace + "/" + d.Name
		}
		e.FirewallRule = &FirewallRule{Name: name, UID: d.Rule, Version: d.Revision, Type: d.Kind, Desc: r.Reason}
	}
}

// policy is the one that the event is about: what would deny comes before what allowed.
func policy(r record.Record) *Policy {
	rule, applied := ruleOf(r)
	if rule.IsZero() {
		return nil
	}
	return &Policy{UID: rule.Namespace + "/" + rule.Name, Name: rule.Name, Version: rule.Revision, IsApplied: applied}
}

// ruleOf is the policy's rule that the event is about, and whether it was applied.
func ruleOf(r record.Record) (rule record.Object, applied bool) {
	switch {
	case !r.WouldDeny.IsZero():
		return r.WouldDeny, false
	case !r.AllowedBy.IsZero():
		return r.AllowedBy, true
	case r.DecidedBy.HasRules():
		return r.DecidedBy, true
	default:
		return record.Object{}, false
	}
}

func (e *Event) setEndpoints(r record.Record) {
	src, dst := endpoint(r.Source), endpoint(r.Destination)
	src.Name, dst.Name = r.Workload.Name, r.DestinationWorkload.Name
	if r.Class != record.DNS {
		dst.Hostname = r.Host
	}
	if r.Port != 0 {
		dst.Port = r.Port
	}
	e.SrcEndpoint, e.DstEndpoint = named(src), named(dst)
	if e.SrcEndpoint == nil && e.DstEndpoint == nil { // one of them must be there
		e.SrcEndpoint = &Endpoint{Name: r.Proxy}
	}
	e.ConnectionInfo = &ConnectionInfo{ProtocolName: "tcp", ProtocolNum: 6, Direction: "Unknown"}
	if id, known := directions[r.Direction]; known {
		e.ConnectionInfo.Direction, e.ConnectionInfo.DirectionID = strings.ToUpper(r.Direction[:1])+r.Direction[1:], id
	}
	e.Traffic = &Traffic{BytesIn: r.BytesSent, BytesOut: r.BytesReceived, Bytes: r.BytesSent + r.BytesReceived}
	if r.SNI != "" {
		e.TLS = &TLS{SNI: r.SNI, Version: "Unknown"}
	}
}

func (e *Event) setNetwork(r record.Record) {
	if r.Verdict == record.Denied {
		e.classify(4001, "Network Activity", 5, "Refuse")
		return
	}
	e.classify(4001, "Network Activity", 6, "Traffic")
}

// directions are OCSF's numbers for a record's words.
var directions = map[string]int{record.Inbound: 1, record.Outbound: 2, record.Lateral: 3}

// methods are the activities of class 4002.
var methods = map[string]int{
	"CONNECT": 1, "DELETE": 2, "GET": 3, "HEAD": 4, "OPTIONS": 5, "POST": 6, "PUT": 7, "TRACE": 8,
}

func (e *Event) setHTTP(r record.Record) {
	id, known := methods[r.Method]
	switch {
	case known:
		e.classify(4002, "HTTP Activity", id, r.Method[:1]+strings.ToLower(r.Method[1:]))
	case r.Method == "":
		e.classify(4002, "HTTP Activity", 0, "Unknown")
	default:
		e.classify(4002, "HTTP Activity", 99, r.Method)
	}
	path, query, _ := strings.Cut(r.URLPath, "?")
	url := URL{Hostname: r.Host, Port: r.Port, Path: path, Query: query, Scheme: "http"}
	if r.Protocol == "tls" {
		url.Scheme = "https"
	}
	if path == "" {
		url.String = url.Scheme + "://" + net.JoinHostPort(r.Host, strconv.FormatUint(uint64(r.Port), 10))
	}
	e.HTTPRequest = &HTTPRequest{URL: url}
	if known { // the schema has no others
		e.HTTPRequest.Method = r.Method
	}
	if r.Status != 0 {
		e.HTTPResponse = &HTTPResponse{Code: r.Status}
	}
}

func (e *Event) setDNS(r record.Record) {
	e.classify(4003, "DNS Activity", 6, "Traffic")
	e.Query = &DNSQuery{Hostname: r.Host}
	e.ConnectionInfo.ProtocolName, e.ConnectionInfo.ProtocolNum = "udp", 17
}

func endpoint(address string) *Endpoint {
	if ap, err := netip.ParseAddrPort(address); err == nil {
		return &Endpoint{IP: ap.Addr().String(), Port: uint32(ap.Port())}
	}
	return &Endpoint{}
}

// named is an endpoint of which there is something to tell, for the schema nothing else is one.
func named(e *Endpoint) *Endpoint {
	if e.Hostname == "" && e.IP == "" && e.Name == "" {
		return nil
	}
	return e
}

func actor(w record.Workload) *Actor {
	name := w.ServiceAccount
	if w.Namespace != "" {
		name = w.Namespace + "/" + w.ServiceAccount
	}
	if w.Principal == "" && name == "" {
		return nil
	}
	return &Actor{User{UID: w.Principal, Name: name, Type: "Service", TypeID: 4}}
}

// unmapped holds what the schema has no word for.
func unmapped(r record.Record) map[string]string {
	out := map[string]string{}
	rule, _ := ruleOf(r)
	for key, value := range map[string]string{
		"path": r.Path, "method": r.Method, "reporter": r.Reporter, "cluster": r.Cluster, "route": r.Route, "authority": r.Authority,
		"protocol": r.Protocol, "namespace": r.Workload.Namespace, "response_flags": strings.Join(r.Flags, ","),
		"labels": r.Workload.Labels, "dialled": r.Dialled, "destination_principal": r.DestinationWorkload.Principal,
		"destination_namespace": r.DestinationWorkload.Namespace, "destination_service_account": r.DestinationWorkload.ServiceAccount,
		"destination_labels": r.DestinationWorkload.Labels, "claim": r.Claim, "forwarded_for": r.ForwardedFor, "cut": strings.Join(r.Cut, ","),
		"actor_by": r.ActorBy, "policy_rule": rule.Rule, "allowed_by": strings.Trim(r.AllowedBy.Namespace+"/"+r.AllowedBy.Name+" "+r.AllowedBy.Rule, "/ "),
	} {
		if value != "" {
			out[key] = value
		}
	}
	return out
}
