package registry

import (
	"maps"
	"slices"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// ledService is what routes of the Gateway API of a namespace are for that have a Service as a parent: those of the Service's own namespace
// lead all who ask for it, others the pods of their own namespace.
type ledService struct {
	namespace string
	service   Ref
}

// meshRoutes is the writer's memory of them.
type meshRoutes struct {
	parts  map[config.Key]map[Ref]route.Routes // of each route, by its parent
	of     users[ledService]                   // the routes that are for a Service
	joined map[ledService]*VirtualService      // what became of all of them
	leadTo map[string]map[ledService]bool      // what leads to a host
}

func newMeshRoutes() meshRoutes {
	return meshRoutes{map[config.Key]map[Ref]route.Routes{}, users[ledService]{}, map[ledService]*VirtualService{}, map[string]map[ledService]bool{}}
}

// makeMeshRoute makes what pods' proxies do by a route of the Gateway API. What it comes to beside others is settled by joinMeshRoutes.
func (b *batch) makeMeshRoute(w gatewayapi.World, key config.Key) {
	x := &b.index.mesh
	for ref := range x.parts[key] {
		at := ledService{key.Namespace, ref}
		b.rejoined[at] = true
		x.of.note(at, key, false)
	}
	delete(x.parts, key)
	o := b.objects.Get(key)
	if o == nil {
		return
	}
	r, _ := gatewayapi.RouteOf(o)
	for _, a := range r.Attach(w) {
		if !a.OfMesh() || a.Is() {
			continue
		}
		if x.parts[key] == nil {
			x.parts[key] = map[Ref]route.Routes{}
		}
		ref := Ref(a.Service)
		x.parts[key][ref] = x.parts[key][ref].And(a.ServiceRoutes(w, r))
		at := ledService{key.Namespace, ref}
		x.of.note(at, key, true)
		b.rejoined[at] = true
	}
}

// joinMeshRoutes makes one value of all routes that a namespace has for a Service, in the order of the API.
func (b *batch) joinMeshRoutes() {
	x := &b.index.mesh
	for at := range b.rejoined {
		was, is := x.joined[at], b.join(at)
		if was != nil && is != nil && was.Hash == is.Hash {
			continue
		}
		b.noteJoined(at, was, false)
		b.noteJoined(at, is, true)
		if delete(x.joined, at); is != nil {
			x.joined[at] = is
		}
	}
}

// join is nil where there are no routes.
func (b *batch) join(at ledService) *VirtualService {
	list := make([]*config.Object, 0, len(b.index.mesh.of[at]))
	for key := range b.index.mesh.of[at] {
		list = append(list, b.objects.Get(key))
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, gatewayapi.Older)
	v := &VirtualService{Key: list[0].Key, Revision: list[0].Revision, Created: list[0].Created, Joined: true, Hosts: []string{at.service.Host()}, Gateways: []string{route.Mesh}}
	if at.namespace == at.service.Namespace {
		v.ExportTo.All = true
	} else {
		v.ExportTo.Namespaces = []string{at.namespace}
	}
	for _, o := range list {
		v.Routes = v.And(b.index.mesh.parts[o.Key][at.service])
	}
	slices.SortStableFunc(v.HTTP, func(x, y route.HTTP) int { return route.Precedence(&x, &y) })
	return v.seal()
}

// noteJoined puts one into the indexes, or takes it out.
func (b *batch) noteJoined(at ledService, v *VirtualService, there bool) {
	if v == nil {
		return
	}
	by := -1
	if there {
		by = +1
	}
	b.putVirtual(at.service.Host(), v, there)
	if !v.ExportTo.All { // else its own namespace is led as all are
		b.countView(at.namespace, v.Key.Namespace, by, true)
	}
	for host := range v.ends {
		to := b.index.mesh.leadTo
		if !there {
			if delete(to[host], at); len(to[host]) == 0 {
				delete(to, host)
			}
			continue
		}
		if to[host] == nil {
			to[host] = map[ledService]bool{}
		}
		to[host][at] = true
	}
}

// followMeshRoutes marks the Services that are led to hosts which this batch touched.
func (b *batch) followMeshRoutes() {
	x := &b.index.mesh
	if len(x.leadTo) == 0 {
		return
	}
	led := map[ledService]bool{}
	for host := range b.touched {
		maps.Copy(led, x.leadTo[host])
	}
	for at := range led {
		host := at.service.Host()
		if list, _ := b.hosts.Get(host); len(list) > 0 {
			b.touched[host] = true
		}
	}
}
