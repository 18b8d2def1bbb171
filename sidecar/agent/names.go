package agent

import (
	"fmt"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/sidecar/relay"
)

// watch keeps the name table, and what becomes of other names, as the controller says. Both are on disk like all that
// it says, and in force before the first question is answered after a restart. A controller, or a disk, that says
// nothing about other names lets them be resolved.
func (r *resolver) watch() relay.Watch {
	return relay.Watch{TypeURL: name.TypeURL, Last: true, Apply: r.apply}
}

func (r *resolver) apply(changed []*discoveryv3.Resource, removed []string) map[string]error {
	refused := map[string]error{}
	names := make([]name.Name, 0, len(changed))
	var rest *name.Defaults
	for _, res := range changed {
		n, err := readName(res)
		switch {
		case err != nil:
			refused[res.GetName()] = err
		case n.Defaults != nil:
			rest = n.Defaults
		default:
			names = append(names, n)
		}
	}
	table := r.Names()
	if err := table.Apply(names, hosts(removed, &rest)); err != nil { // every name was validated: this is not one name's fault
		for _, n := range names {
			refused[n.Resource()] = err
		}
	}
	if rest != nil { // after the names, so that none that is registered is refused in between
		if err := r.use(*rest); err != nil {
			refused[name.Everything] = err
		}
	}
	table.SetReady()
	return refused
}

func readName(r *discoveryv3.Resource) (name.Name, error) {
	n, err := name.Unmarshal(r.GetResource().GetValue())
	if err == nil && n.Resource() != r.GetName() {
		err = fmt.Errorf("the resource holds the host %q", n.Resource())
	}
	return n, err
}

// hosts are the names that the table loses. Without a word about the rest, that is as it was in the beginning.
func hosts(removed []string, rest **name.Defaults) []string {
	out := make([]string, 0, len(removed))
	for _, host := range removed {
		if host == name.Everything {
			*rest = &name.Defaults{}
			continue
		}
		out = append(out, host)
	}
	return out
}
