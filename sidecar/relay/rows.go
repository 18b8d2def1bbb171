package relay

import (
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/xds/digest"
	"github.com/sallyport/sallyport/xds/ondemand"
	"github.com/sallyport/sallyport/xds/wire"
)

// rows are the virtual hosts that there are, by what finds them, where Envoy is given those in use only. The relay's
// goroutine changes them; others find, and note that something is used.
type rows struct {
	mu       sync.RWMutex
	keep     map[string]time.Duration // by table: how long a row stays that is not used any more; 0: all of its rows are given
	named    map[string]bool          // by table: they are asked for by name
	echoes   bool                     // some table has said so, see fetched
	asks     *asks                    // what is asked for by name; nil where the agent has all of them
	byName   map[string]*row
	byDomain map[string][]*row // at most one a table, but while a domain passes from one row to another
	complete atomic.Bool       // all that there are have come
	stale    bool              // a row in use went: some may be given for its sake
	gathered []*row            // the relay's goroutine's own: what Envoy is given with the next answer, in the order in which it came in use
}

// row is one virtual host.
type row struct {
	name     string       // TABLE/HOST
	domains  []string     // what finds it
	given    bool         // Envoy has it, or is about to
	gathered bool         // it is among the gathered
	used     atomic.Int64 // when it was used last, in seconds since 1970; 0: it is not in use
	ready    atomic.Bool  // Envoy has taken it
}

func newRows() *rows {
	return &rows{keep: map[string]time.Duration{}, named: map[string]bool{}, byName: map[string]*row{}, byDomain: map[string][]*row{}}
}

// tableOf is the table of a virtual host (Envoy's names of them are TABLE/HOST).
func tableOf(name string) string {
	table, _, _ := strings.Cut(name, "/")
	return table
}

func (r *row) in(table string) bool {
	return strings.HasPrefix(r.name, table) && r.name[len(table)] == '/'
}

// always says whether the row is given whatever is used.
func (r *row) always() bool { return strings.HasSuffix(r.name, "/"+ondemand.FirstRow) }

// tableMetadata is the field of envoy.config.route.v3.RouteConfiguration that is read of what is opaque otherwise. (Of rows it is the domains, digest.Domains.)
const tableMetadata protowire.Number = 17

// fetched is what a route table says of how its rows come.
type fetched struct {
	keep   time.Duration // for how long one stays that is not used; 0 where Envoy is given all of them
	named  bool          // they can be asked for by name
	echoes bool          // who asks for all is told which answer is to that (ondemand.Echo)
}

// fetchedBy reads it.
func fetchedBy(table *discoveryv3.Resource) (f fetched) {
	digest.Fields(table.GetResource().GetValue(), tableMetadata, func(value []byte) {
		metadata := &corev3.Metadata{}
		if proto.Unmarshal(value, metadata) != nil {
			return
		}
		says := metadata.GetFilterMetadata()["sallyport"].GetFields()
		f.named, f.echoes = says[ondemand.ByNameMetadata].GetStringValue() != "", says[ondemand.EchoMetadata].GetStringValue() != ""
		if d, err := time.ParseDuration(says[ondemand.KeepMetadata].GetStringValue() + "s"); err == nil {
			f.keep = d
		}
	})
	return f
}

// put takes a new or changed row, and gives what is kept of it.
func (r *rows) put(res *discoveryv3.Resource) *row {
	name := res.GetName()
	var domains []string
	digest.Domains(name, res.GetResource().GetValue(), func(domain string) { domains = append(domains, domain) })
	r.mu.Lock()
	defer r.mu.Unlock()
	is := r.byName[name]
	if is == nil {
		is = &row{name: name}
		is.given = is.always()
		r.byName[name] = is
	}
	r.unlist(is)
	is.domains = domains
	for _, domain := range domains {
		r.byDomain[domain] = append(r.byDomain[domain], is)
	}
	is.given = is.given || r.below(is)
	return is
}

// remove forgets a row.
func (r *rows) remove(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if is := r.byName[name]; is != nil {
		r.unlist(is)
		r.stale = r.stale || is.used.Swap(0) != 0
		is.ready.Store(false)
		delete(r.byName, name)
	}
}

func (r *rows) unlist(is *row) {
	for _, domain := range is.domains {
		var left []*row
		for _, other := range r.byDomain[domain] {
			if other != is {
				left = append(left, other)
			}
		}
		if r.byDomain[domain] = left; left == nil {
			delete(r.byDomain, domain)
		}
	}
}

// below says whether a pattern's row that Envoy has would take what the row is for: whatever is below such a pattern is
// given with it.
func (r *rows) below(is *row) bool {
	for _, domain := range is.domains {
		for pattern := range patternsOver(domain) {
			for _, over := range r.byDomain[pattern] {
				if over != is && over.used.Load() != 0 && over.in(tableOf(is.name)) {
					return true
				}
			}
		}
	}
	return false
}

// mostDomain is how many bytes what a pattern stands for has at most: at a gateway with a port.
const mostDomain = wire.MostHost + len(":65535")

// patternsOver are the patterns that a host, or a pattern, is below, the longest first. A host is what a client says, of up to a request's head: of one with a dot at each other byte all of its ends
// would be the square of that.
func patternsOver(host string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for rest, more := end(strings.TrimPrefix(host, "*."), mostDomain+len(".")), true; more; {
			if _, rest, more = strings.Cut(rest, "."); more && !yield("*."+rest) {
				return
			}
		}
	}
}

// end is how a text ends, in so many bytes.
func end(s string, bytes int) string { return s[max(len(s)-bytes, 0):] }

// find gives the rows that a host leads to: its own, or the longest pattern's, of a table, or of each for "".
func (r *rows) find(table, host string) (found []*row) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	take := func(domain string) {
		longer := len(found)
		for _, is := range r.byDomain[domain] {
			own := tableOf(is.name)
			has := slices.ContainsFunc(found[:longer], func(other *row) bool { return other.in(own) })
			if !has && (table == "" || table == own) {
				found = append(found, is)
			}
		}
	}
	take(host)
	for pattern := range patternsOver(host) {
		if table != "" && len(found) > 0 {
			break
		}
		take(pattern)
	}
	return found
}

// covered are the rows that have to be given with this one, since it is a pattern's and would take what they are for.
func (r *rows) covered(is *row) (found []*row) {
	var ends []string
	for _, domain := range is.domains {
		if below, ok := strings.CutPrefix(domain, "*"); ok {
			ends = append(ends, below)
		}
	}
	if len(ends) == 0 {
		return nil
	}
	table := tableOf(is.name)
	for domain, list := range r.byDomain {
		if !slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(domain, end) }) {
			continue
		}
		for _, other := range list {
			if other != is && other.in(table) {
				found = append(found, other)
			}
		}
	}
	return found
}

// gives says whether Envoy is given a row.
func (r *rows) gives(name string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if keep, known := r.keep[tableOf(name)]; known && keep == 0 {
		return true
	}
	is := r.byName[name]
	return is != nil && is.given
}

// fetches says whether a table's rows are given when they are used.
func (r *rows) fetches(table string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.keep[table] > 0
}

// touch notes that a row is used, if it is in use.
func (r *row) touch(now time.Time) {
	if was := r.used.Load(); was != 0 && was != now.Unix() {
		r.used.CompareAndSwap(was, now.Unix()) // else it has just been noted, or has left
	}
}

// due says whether a row that is in use was not used for as long as one stays.
func (r *row) due(keep time.Duration, now time.Time) bool {
	at := r.used.Load()
	return at != 0 && keep != 0 && now.Sub(time.Unix(at, 0)) >= keep
}

// anyDue says so of any row.
func (r *rows) anyDue(now time.Time) bool {
	for name, is := range r.byName {
		if is.due(r.keep[tableOf(name)], now) {
			return true
		}
	}
	return false
}
