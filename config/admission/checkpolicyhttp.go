package admission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/host"
)

// checkUnread rejects rules about requests of hosts whose requests nobody reads: their ports are registered as TLS, which the
// workload itself encrypts, or as TCP. It warns where another namespace registered them, who does not decide what a policy may say.
func (w *world) checkUnread(r *report, p *policy) {
	for i, rule := range p.spec.Rules {
		asked := strings.Join(httpFields(rule), ", ")
		if asked == "" {
			continue
		}
		for j, h := range rule.Hosts {
			n := p.matchers[i].names[j]
			covering, _ := w.registrations(p, n)
			counting, theirs := w.counting(p, covering)
			read, unread := portsOf(counting, rule.Ports)
			switch field := at("spec.rules", i, "hosts", j); {
			case len(unread) == 0:
			case len(read) == 0 || len(rule.Ports) > 0:
				say := r.reject
				if theirs {
					say = r.warn
				}
				say(field, h, fmt.Sprintf("its port %s, so %s match nothing there", unread[0], asked), unread[0].decrypt(n, asked))
			case rule.Action == v1alpha1.Action_Deny:
				r.warn(field, h, fmt.Sprintf("its port %s, so %s match nothing there, and what goes to it is not denied", unread[0], asked), fmt.Sprintf("deny port %d in a rule of its own, or allow what is meant and deny the rest", unread[0].number))
			}
		}
	}
}

// counting are the entries among some that count for a policy's workloads: those of its own namespace, else of the root namespace, else
// those of others.
func (w *world) counting(p *policy, entries []*entry) (counting []*entry, theirs bool) {
	for _, ns := range []string{p.object.Namespace, w.cfg.RootNamespace} {
		for _, e := range entries {
			if e.object.Namespace == ns {
				counting = append(counting, e)
			}
		}
		if len(counting) > 0 {
			return counting, false
		}
	}
	return entries, true
}

// unreadPort is a port whose requests nobody reads.
type unreadPort struct {
	number   uint32
	protocol string
	entry    string
}

// String says which one it is: `443 is registered as TLS by ServiceEntry shop/api`.
func (u unreadPort) String() string {
	return fmt.Sprintf("%d is registered as %s by %s", u.number, u.protocol, u.entry)
}

// decrypt says what to write so that a proxy reads the requests.
func (u unreadPort) decrypt(n host.Name, asked string) string {
	if !isTLS(u.protocol) {
		return fmt.Sprintf("if it speaks HTTP, register it so: ports: [{number: %d, name: http, protocol: HTTP}]; else remove %s", u.number, asked)
	}
	return fmt.Sprintf("register it as HTTP and let the gateway originate TLS: in the ServiceEntry ports: [{number: 80, name: http, protocol: HTTP, targetPort: %d}], "+
		"in a DestinationRule {host: %q, trafficPolicy: {tls: {mode: SIMPLE}}}, and workloads ask for http://; or remove %s", u.number, n, asked)
}

// portsOf sorts the ports of entries outside the mesh, as far as they are asked for, by whether a proxy reads what goes there. A port that
// one entry has as HTTP is read.
func portsOf(entries []*entry, asked []uint32) (read []uint32, unread []unreadPort) {
	for _, e := range entries {
		if !e.external() {
			continue
		}
		for _, port := range e.spec.Ports {
			switch protocol := strings.ToUpper(port.Protocol); {
			case len(asked) > 0 && !slices.Contains(asked, port.Number), protocol == "UDP":
			case protocol == "" || isHTTP(protocol):
				read = append(read, port.Number)
			default:
				unread = append(unread, unreadPort{port.Number, protocol, e.object.Key.String()})
			}
		}
	}
	return read, slices.DeleteFunc(unread, func(u unreadPort) bool { return slices.Contains(read, u.number) })
}
