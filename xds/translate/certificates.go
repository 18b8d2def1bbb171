package translate

import (
	"slices"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/ondemand"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/farend"
	"github.com/sallyport/sallyport/xds/translate/ingress"
)

// certificates are those that an ingress gateway finds by the names that clients say. They are in a view beside its base: one that comes or goes has
// nothing else made again. It is immutable.
type certificates struct {
	from  *registry.IngressPorts          // which hosts there are
	hosts map[string]resolve.Certificate  // what is shown for each
	used  map[registry.CredentialRef]bool // what is asked for, and whether it is shown
	names map[string]bool                 // of the secrets that are
}

// has says whether a resource is one of them, and not the base's.
func (c *certificates) has(r *resource.Resource) bool {
	return c != nil && r.Type == resource.Secret && c.names[r.Name]
}

// setTables has all names looked at again where there are other tables of requests inside of TLS: each says of others' names that they are not its own.
func (e *edit) setTables(s *registry.Snapshot, t *Translator) {
	if e.next.Class.Kind != Ingress {
		return
	}
	tables := e.next.Class.ingress(s).Tables()
	if !e.new && !slices.Equal(tables, e.next.tables) {
		e.setNames(s, t)
	}
	e.next.tables = tables
}

// setCertificates puts those in that an ingress gateway finds by names, and takes out what is no longer shown.
func (e *edit) setCertificates(s *registry.Snapshot, changed registry.Changed) {
	c := e.next.Class
	if c.Kind != Ingress {
		return
	}
	was, at := e.next.shown, c.ingress(s)
	switch {
	case was == nil:
		was = &certificates{}
	case was.from == at.Shared() && !slices.ContainsFunc(changed.Secrets, was.asks):
		return
	}
	now, turned := &certificates{from: at.Shared()}, make(map[registry.CredentialRef]bool, len(changed.Secrets))
	for _, ref := range changed.Secrets {
		turned[ref] = true
	}
	if len(now.from.Shared) > 0 {
		now.hosts, now.used = make(map[string]resolve.Certificate, len(now.from.Shared)), make(map[registry.CredentialRef]bool, len(now.from.Shared))
		now.names = make(map[string]bool, len(now.from.Shared))
	}
	for host, shown := range at.Certificates() {
		now.hosts[host] = shown
		if before, there := was.hosts[host]; !there || before != shown {
			e.put(ingress.ServerName(host, shown))
		}
		if now.used[shown.Ref] { // by another host, too
			continue
		}
		if now.used[shown.Ref] = !shown.Closed; shown.Closed {
			continue
		}
		now.names[farend.PairName(shown.Ref)] = true
		if !was.used[shown.Ref] || turned[shown.Ref] {
			held, _ := s.Credential(shown.Ref)
			for _, r := range farend.SealSecrets([]farend.Material{{Given: registry.ServedCredential{Ref: shown.Ref, Pair: true}, Credential: held}}) {
				e.put(r)
			}
		}
	}
	for host := range was.hosts {
		if _, stays := now.hosts[host]; !stays {
			e.takeOut(resource.Ref{Type: resource.ServerName, Name: ondemand.ServerName(host)})
		}
	}
	for ref, shown := range was.used {
		if shown && !now.used[ref] { // what the base has of it, it puts in itself
			e.takeOut(resource.Ref{Type: resource.Secret, Name: farend.PairName(ref)})
		}
	}
	e.next.shown = now
}

// asks says whether a Secret is one that a host is shown, or would be.
func (c *certificates) asks(ref registry.CredentialRef) bool {
	_, asked := c.used[ref]
	return asked
}
