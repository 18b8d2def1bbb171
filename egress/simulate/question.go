package simulate

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/egress/audit/inputs"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// Why a question is not reproducible. Others are said with what they are about.
const (
	whyNobody  = "nobody knows who asked"
	whyClaim   = "a gateway reported it that is not believed about others"
	whyBeyond  = "its host was not kept: one account asked for too many on a day"
	whyCut     = "a text of it was too long, and is not whole"
	whyLabels  = "the log does not hold the workload's labels, and something selects by labels"
	whyPort    = "the request named another port than it was sent to"
	whyMethod  = "the log does not hold the request's method"
	whyInbound = "it came into the mesh, of which no policy speaks"
	whyAnswer  = "an answer of DNS was refused for its address, or there were too many questions: no object decides that"
	whyOther   = "other reasons"
	whyStrange = "the log does not say what was spoken"
)

// asked is a question as Decide takes it.
type asked struct {
	*inputs.Question
	from    policy.Workload
	to      policy.Destination
	dialled netip.Addr
}

// read makes one of an input's question; otherwise it says why it cannot be asked.
func read(q *inputs.Question) (asked, string) {
	a := asked{Question: q, from: policy.Workload{Namespace: q.Namespace, Name: q.Workload, Account: q.ServiceAccount, Labels: labels(q.Labels)}}
	switch {
	case q.Beyond == inputs.BeyondHosts:
		return a, whyBeyond
	case q.Claim != "":
		return a, whyClaim
	case q.Namespace == "":
		return a, whyNobody
	case q.Direction == record.Inbound:
		return a, whyInbound
	case q.IsCut("host"), q.IsCut("sni"), q.IsCut("dialled"), q.IsCut("workload.namespace"), q.IsCut("workload.serviceAccount"):
		return a, whyCut
	case q.Class == record.DNS:
		return a, ""
	}
	a.to = policy.Destination{Scheme: scheme(q.Protocol), Host: q.Host, Port: q.Port, Method: q.Method, Path: q.URLPath}
	if q.SNI != "" && q.Protocol == string(policy.TLS) && q.Reporter == record.ReporterSidecar {
		a.to.Host = q.SNI // found by its address, which names the host
	}
	if _, err := netip.ParseAddr(a.to.Host); err != nil || a.to.Host == q.Host {
		a.dialled = a.address()
	}
	switch {
	case a.to.Scheme == "":
		return a, whyStrange
	case a.to.Scheme == policy.HTTP && q.Method == "":
		return a, whyMethod
	case a.to.Scheme == policy.HTTP && a.dialledPort() != 0 && a.dialledPort() != q.Port:
		return a, whyPort
	}
	return a, ""
}

// scheme is what was spoken; "" for nothing that is known.
func scheme(protocol string) policy.Scheme {
	switch s := policy.Scheme(protocol); s {
	case policy.HTTP, policy.TLS, policy.TCP:
		return s
	default:
		return ""
	}
}

// labels reads those that a record has.
func labels(text string) map[string]string {
	if text == "" {
		return nil
	}
	out := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		k, v, _ := strings.Cut(pair, "=")
		out[k] = v
	}
	return out
}

// address is the one that was dialled, if that is known.
func (a *asked) address() netip.Addr {
	at, _ := netip.ParseAddrPort(a.Dialled)
	return at.Addr().Unmap()
}

func (a *asked) dialledPort() uint32 {
	_, port, found := strings.Cut(a.Dialled[strings.LastIndexByte(a.Dialled, ']')+1:], ":")
	n, err := strconv.ParseUint(port, 10, 16)
	if !found || err != nil {
		return 0
	}
	return uint32(n)
}

// destination is what was asked for, with what is not known of it. Each answer needs one of its own.
func (a *asked) destination() policy.Destination {
	d := a.to
	d.Unknown = &route.Unknown{Query: true, Headers: true, Path: a.Beyond == inputs.BeyondPaths || a.IsCut("urlPath")}
	return d
}

// labelled says whether the log holds the workload's labels, as far as they count on either side.
func (a *asked) labelled(sides ...*registry.Snapshot) bool {
	if a.Labels != "" && !a.IsCut("workload.labels") || a.Reporter == record.ReporterProxy {
		return true
	}
	for _, s := range sides {
		if s.SelectsByLabels(a.Namespace) {
			return false
		}
	}
	return true
}

// resolved is what the workload's DNS answers for the host, where that follows from the configuration.
func (a *asked) resolved(s *registry.Snapshot) netip.Addr {
	return resolve.Workload(s, a.from.Namespace, a.from.Labels).Resolved(a.to.Host)
}
