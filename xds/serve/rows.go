package serve

import (
	"iter"
	"maps"
	"strings"

	"github.com/sallyport/sallyport/xds/digest"
	"github.com/sallyport/sallyport/xds/ondemand"
	"github.com/sallyport/sallyport/xds/resource"
)

// An agent that asks for virtual hosts by name (docs/adr/0080-rows-by-name.md) names them as Envoy does that asks for one on demand: TABLE/DOMAIN, whatever domain of
// it that is. Who has a pattern's row is given all rows that are below it too, as they come, since the pattern's would hide them.

// find is what a name of a type stands for.
func (s *stream) find(t resource.Type, name string) (*resource.Resource, bool) {
	if t == resource.VirtualHost {
		return s.class.view.Row(name)
	}
	return s.of(t).view.Get(t, name)
}

// rowsToLookAt are the names of rows about which there may be something to say, and those that are said again. What a client has that it does not
// ask for any more is forgotten.
func (s *stream) rowsToLookAt(w *watch, known map[string]string, asked map[string]bool) (look map[string]struct{}, again map[string]bool) {
	look, again = map[string]struct{}{}, map[string]bool{}
	subscribed, view := w.sub.SubscribedResources(), s.class.view
	if last := s.sent[resource.VirtualHost]; last.view == nil {
		for name := range known {
			if _, ok := subscribed[name]; !ok {
				delete(known, name)
			}
		}
		for name := range subscribed {
			look[name] = struct{}{}
		}
	} else {
		changed := s.class.namesSince(last, resource.VirtualHost)
		for name, row := range s.aliases {
			if changed[row] {
				look[name] = struct{}{}
			}
		}
		for name := range changed {
			_, named := subscribed[name]
			_, has := known[name]
			for _, pattern := range view.PatternsOver(name) {
				_, over := subscribed[pattern]
				named = named || over
			}
			if named || has {
				look[name] = struct{}{}
			}
		}
		come := s.mayHaveCome(last)
		for name := range s.absent {
			if come(name) {
				look[name] = struct{}{}
			}
		}
	}
	for name := range asked {
		if _, ok := subscribed[name]; ok {
			look[name] = struct{}{}
		}
	}
	for name := range look {
		if _, ok := subscribed[name]; !ok {
			continue
		}
		if table, host, _ := strings.Cut(name, "/"); strings.HasPrefix(host, "*.") && (asked[name] || known[name] == "" || known[name] == absent) {
			if _, there := view.Get(resource.VirtualHost, table+"/"+host); there {
				for _, below := range view.Below(name) {
					look[below] = struct{}{}
				}
			}
		}
	}
	for name := range known {
		if len(s.fresh) == 0 {
			break
		}
		if table, _, _ := strings.Cut(name, "/"); s.fresh[table] {
			look[name], again[name] = struct{}{}, true
		}
	}
	s.fresh = nil
	for _, of := range []iter.Seq[string]{maps.Keys(s.absent), maps.Keys(s.aliases)} {
		for name := range of {
			if _, ok := subscribed[name]; !ok {
				delete(s.absent, name)
				delete(s.aliases, name)
				delete(look, name)
			}
		}
	}
	return look, again
}

// mayHaveCome says of rows that were not there whether they are to be looked for again. By whatever domain a row is asked for, it is in the digest,
// so that one which comes changes that.
func (s *stream) mayHaveCome(last position) func(name string) bool {
	if !s.class.view.Class.Named || !s.class.follows(last) {
		return func(string) bool { return true }
	}
	buckets := s.class.namesSince(last, resource.Digest)
	return func(name string) bool {
		table, domain, _ := strings.Cut(name, "/")
		return len(buckets) > 0 && buckets[digest.BucketName(digest.KeyOf(table, domain).Bucket)]
	}
}

// echoes are the names by which a client that asks for all rows knows the answer to that (ondemand.Echo).
func (w *watch) echoes(t resource.Type) (names []string) {
	if t != resource.VirtualHost || w.waits {
		return nil
	}
	for _, name := range w.subscribes {
		if strings.HasPrefix(name, ondemand.Echo) {
			names = append(names, name)
		}
	}
	return names
}

// mostAbsent is of how many names that are not there a client is told when they come. Our agents remember a quarter of that.
const mostAbsent = 1024

// noteFound remembers what was asked for and is not there, and what is there by another name.
func (s *stream) noteFound(name string, r *resource.Resource) {
	delete(s.absent, name)
	delete(s.aliases, name)
	switch {
	case r == nil && len(s.absent) >= mostAbsent:
	case r == nil && s.absent == nil:
		s.absent = map[string]bool{name: true}
	case r == nil:
		s.absent[name] = true
	case r.Name == name:
	case s.aliases == nil:
		s.aliases = map[string]string{name: r.Name}
	default:
		s.aliases[name] = r.Name
	}
}
