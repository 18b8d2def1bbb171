package resolve

import (
	"slices"

	"github.com/sallyport/sallyport/serviceentry/registry"
)

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

// PassedExit is an egress gateway to whose pods in its own network an east-west gateway passes what leaves by it from others. What names it, by TLS, is its
// own name for requests, and for all else that of a host outside.
type PassedExit struct {
	Ref registry.Ref
	ExitEndpoints
}

// PassedExits are those that stand for everybody, and that the hosts of a server cover; in order. None where nothing is passed on.
func (a Ingress) PassedExits(o *registry.IngressServer) (out []PassedExit) {
	if o.Serves != registry.PassesMesh {
		return nil
	}
	for _, ref := range a.snap.SharedExits() {
		if !o.Passes(ref.Namespace, ref.Host()) {
			continue
		}
		if ends := ExitAt(a.snap, ref); len(ends.Endpoints) > 0 {
			ends.Endpoints = a.near.Own(ends.Endpoints)
			out = append(out, PassedExit{ref, ends})
		}
	}
	return out
}
