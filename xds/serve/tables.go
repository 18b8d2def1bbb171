package serve

import "github.com/sallyport/sallyport/xds/resource"

// A route table and its virtual hosts are different resources (VHDS), and Envoy listens to virtual hosts from the
// moment on that it has their table: those that came before are lost to it, and its one subscription to all of them
// gives it no occasion to ask again. So a table that a client did not have is followed by all of its virtual hosts.

// tableSent notes that a client was sent a table that it did not have.
func (s *stream) tableSent(name string) {
	if s.fresh == nil {
		s.fresh = map[string]bool{}
	}
	s.fresh[name] = true
}

// follows says whether resources of the type have to be sent for tables that were.
func (s *stream) follows(t resource.Type) bool {
	return t == resource.VirtualHost && len(s.fresh) > 0
}

// tabled adds the virtual hosts of fresh tables to the names.
func (s *stream) tabled(names map[string]bool, t resource.Type) map[string]bool {
	if !s.follows(t) {
		return names
	}
	for table := range s.fresh {
		s.class.view.WalkPrefix(t, table+"/", func(r *resource.Resource) bool {
			names[r.Name] = true
			return true
		})
	}
	return names
}
