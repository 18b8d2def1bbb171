package serve

import (
	"maps"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/xds/resource"
)

// progress is how far a stream is with one type: what it was sent, what it said about that, and what it refused.
type progress struct {
	typeStats
	version string    // of the last response, on state-of-the-world streams
	open    []sending // responses that the client has not spoken about, oldest first
	unheard int       // how many there are, those included that are on their way
	// refused are resources that the client does not have as they were sent to it, and why: refused, and neither
	// taken nor removed since. Under "" is what no resource can be blamed for.
	refused map[string]string
	again   map[string]bool // those of them that are worth another try
}

// sending is what a response said.
type sending struct {
	nonce   string
	content *payload // nil for none
	removed []string
}

// maxOpen is how many responses without a word of the client are remembered, when it goes on asking nevertheless.
const maxOpen = 32

// shownNames is how many refused resources a status names.
const shownNames = 10

func (p *progress) sentOut(s sending) {
	p.Sent = s.nonce
	if len(p.open) == maxOpen {
		p.open = slices.Delete(p.open, 0, 1)
		p.unheard--
	}
	p.open = append(p.open, s)
}

// about finds the response that a nonce means, and forgets it and those before it.
func (p *progress) about(nonce string) (sending, bool) {
	i := slices.IndexFunc(p.open, func(s sending) bool { return s.nonce == nonce })
	if i < 0 {
		return sending{}, false
	}
	s := p.open[i]
	p.unheard -= i + 1
	p.open = slices.Delete(p.open, 0, i+1)
	return s, true
}

func (s sending) names() (out []string) {
	if s.content != nil {
		for r := range s.content.all() {
			out = append(out, r.Name)
		}
	}
	return append(out, s.removed...)
}

// took notes that the client has all of a response. What was refused together with some of it may be good, too.
func (p *progress) took(s sending) {
	p.Acked = s.nonce
	if len(p.refused) == 0 {
		return
	}
	before := len(p.refused)
	for _, name := range s.names() {
		delete(p.refused, name)
		delete(p.again, name)
	}
	delete(p.refused, "")
	if len(p.refused) > 0 && len(p.refused) < before {
		p.again = map[string]bool{}
		for name := range p.refused {
			p.again[name] = true
		}
	}
}

// refuse notes what the client does not have of a response.
func (p *progress) refuse(t resource.Type, s sending, why string) {
	p.Refused++
	if p.refused == nil {
		p.refused = map[string]string{}
	}
	names := blamed(t, s.names(), why)
	for _, name := range names {
		p.refused[name] = why
		delete(p.again, name)
	}
	if len(names) == 0 {
		p.refused[""] = why
	}
}

// blamed are the names that a refusal is about. Envoy takes the good ones of a response's clusters and listeners and
// says which are bad; of other types it takes all or nothing.
func blamed(t resource.Type, names []string, why string) []string {
	if t != resource.Cluster && t != resource.OnDemandCluster && t != resource.Listener {
		return names
	}
	var said []string
	for _, name := range names {
		if strings.Contains(why, name) {
			said = append(said, name)
		}
	}
	if len(said) == 0 || strings.HasSuffix(why, cutShort) {
		return names
	}
	return said
}

// cutShort ends what Envoy says when it has more to say than fits (truncateGrpcStatusMessage in Envoy's source).
const cutShort = "...(truncated)"

// dropped notes that the client does not want some names any more.
func (p *progress) dropped(names []string) {
	for _, name := range names {
		delete(p.refused, name)
		delete(p.again, name)
	}
}

func (p *progress) synced() bool { return p.Sent == p.Acked && len(p.refused) == 0 }

// status is what is shown of it.
func (p *progress) status() typeStats {
	out := p.typeStats
	if len(p.refused) == 0 {
		return out
	}
	names := slices.Sorted(maps.Keys(p.refused))
	out.Problem = p.refused[names[0]]
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	out.Resources = names[:min(len(names), shownNames)]
	return out
}
