package resolve

import "slices"

// IngressPassthrough is a host of the mesh to whose endpoints an ingress gateway passes mutual TLS on, as it comes from other networks: it is
// asked for by the names that proxies of the mesh say (SNI).
type IngressPassthrough struct {
	IngressTarget
	Tables []IngressTable // in which its names are
}

// Passed gathers what counts for a host of the registry; false where no server of the gateway's passes on what is for it. It leads to
// Services of the mesh only, as routes do, and to no headless one: a client chose a pod there, whose address is none here.
func (a Ingress) Passed(host string) (IngressPassthrough, bool) {
	var p IngressPassthrough
	svc := a.snap.Visible(host, a.Namespace, nil)
	if svc == nil || svc.Headless() {
		return p, false
	}
	for _, o := range a.snap.Opened(a.Ingress).Servers {
		if table := tableOf(o); o.Passes(svc.Namespace, svc.Host) && !slices.Contains(p.Tables, table) {
			p.Tables = append(p.Tables, table)
		}
	}
	if len(p.Tables) == 0 {
		return p, false
	}
	if why, _ := a.unfit(svc); why != "" {
		return p, false
	}
	r, front := a.reach(svc)
	p.IngressTarget = a.target(r, front)
	return p, true
}
