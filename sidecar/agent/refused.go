package agent

import (
	"fmt"
	"net/netip"

	"github.com/sallyport/sallyport/dnsproxy"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// noteAnswer takes an answer out of which addresses were taken.
func (r *refusals) noteAnswer(answer dnsproxy.Refusal) {
	path := record.PathGateway
	if r.origin.Reporter == record.ReporterSidecar {
		path = record.PathDirect // what leaves by a gateway is not resolved here
	}
	r.note(refusal{
		key:    "answer " + answer.Host,
		of:     "domain " + answer.Domain,
		record: record.Record{Host: answer.Host, Destination: answer.Addresses[0].String(), Path: path},
		reason: reasonOfAnswer,
	})
}

// noteQuestion takes a question that was denied. Those with a filtered answer are in noteAnswer's hands.
func (r *refusals) noteQuestion(d dnsproxy.Decision) {
	one := refusal{kind: d.Type, record: record.Record{Host: d.Name, Source: d.Client.String()}}
	who := d.Client.Addr().String()
	if d.Asker != nil {
		// A pod of the same name may be another workload's.
		one.record.Workload, who = workloadOf(d.Asker), d.Asker.Principal+" "+d.Asker.Key()
		// There are no others that the proxy's own pod has to leave room for.
		if one.record.Workload != r.origin.Workload {
			one.pod, one.of = who, "pod "+who
		}
	}
	switch {
	case d.Filtered:
		return
	case d.Source == dnsproxy.FromLimit: // a tunnel's names are all different
		one.key, one.kind = "limit "+who+" "+d.Reason, 0
		one.reason = func(of refusal, count int) string {
			return fmt.Sprintf("%s: not asked%s, %s the last", d.Reason, times(count), of.record.Host)
		}
	default:
		one.key, one.record.Path, one.reason = "question "+one.pod+" "+d.Name, record.PathBlackhole, reasonOfQuestion
	}
	r.note(one)
}

func reasonOfQuestion(r refusal, count int) string {
	return fmt.Sprintf("%s is not registered, so the pod's DNS says that there is no such name: refused%s; to allow it, apply a ServiceEntry with this host", r.record.Host, times(count))
}

func reasonOfAnswer(r refusal, count int) string {
	host, addr := r.record.Host, r.record.Destination
	return fmt.Sprintf("%s resolves to %s (%s), which is not a public address: refused%s; if that is meant, allow it with sallyport.dns.allowPrivate, for one namespace with sallyport.dns.allowPrivateFor.NAMESPACE, or with --allow-private %s", host, addr, kindOf(addr), times(count), host)
}

func reasonOfOthers(r refusal, count int) string {
	return fmt.Sprintf("more names were refused at a time than are told apart: further ones%s, %s the last", times(count), r.record.Host)
}

// askerOf and workloadOf say the same of a workload in the resolver's words and in the log's.
func askerOf(w record.Workload) dnsproxy.Asker {
	return dnsproxy.Asker{Principal: w.Principal, Namespace: w.Namespace, ServiceAccount: w.ServiceAccount, Name: w.Name}
}

func workloadOf(a *dnsproxy.Asker) record.Workload {
	return record.Workload{Principal: a.Principal, Namespace: a.Namespace, ServiceAccount: a.ServiceAccount, Name: a.Name}
}

func times(count int) string {
	if count > 1 {
		return fmt.Sprintf(" %d times", count)
	}
	return ""
}

func kindOf(text string) string {
	addr, _ := netip.ParseAddr(text)
	addr = addr.Unmap()
	switch {
	case addr.IsLoopback():
		return "loopback"
	case addr.IsPrivate():
		return "private"
	case addr.IsLinkLocalUnicast():
		return "link-local or metadata"
	default:
		return "special purpose"
	}
}
