package serve

import (
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// Envoy takes one after the other what says what somebody is asked about (translate.AuthorizerInputs), the filters that ask (translate.CallsAuthorizer has both), and what judges by
// itself (translate.IsLocalAuthorization). Where policies change both what asks and what judges, what asks goes first, and closes what either state closes by asking
// (translate.InTransition); then what judges; then, if it is another, what asks. So what is closed before and after is closed at every moment.
//
// What judges is sent as it was when the change began, though policies may have changed again meanwhile: a change that has begun comes to its end after
// two answers of Envoy's, however often they do. The next one begins from there, and not from what was only sent for while this one lasted.

// change is of what asks and of what judges at once; what is to ask meanwhile has been sent.
type change struct {
	judges map[string]*resource.Resource // what is sent next, by name
	asked  map[string]*resource.Resource // what goes with that, as of abouts
}

// step gives what a stream is to have now of a filter of policies, in place of what is served; nil where it keeps what it has.
type step func(now *resource.Resource) *resource.Resource

// serves, keepsAsking and keeps are the steps that need no more than a name.
func serves(now *resource.Resource) *resource.Resource { return now }

func keepsAsking(now *resource.Resource) *resource.Resource {
	return keepsIf(translate.CallsAuthorizer(now.Name), now)
}

func keeps(now *resource.Resource) *resource.Resource {
	return keepsIf(translate.CallsAuthorizer(now.Name) || translate.IsLocalAuthorization(now.Name), now)
}

func keepsIf(kept bool, now *resource.Resource) *resource.Resource {
	if kept {
		return nil
	}
	return now
}

// next is the step of a stream whose Envoy knows these versions.
func (s *stream) next(known map[string]string) step {
	s.asksSoon = s.asksTooSoon()
	judges := s.differs(known, translate.IsLocalAuthorization)
	if c := s.change; c != nil {
		switch lacks := c.lacks(known); {
		case !lacks:
			s.asked = c.asked
		case judges:
			return c.judging
		}
		s.change = nil // it is over, or was taken back
	}
	switch {
	case s.asksSoon: // what judges by itself may let pass what is to be asked about
		return keeps
	case !judges, !s.differs(known, translate.CallsAuthorizer):
		s.asked = s.abouts()
		return serves
	}
	return s.begin(known)
}

// begin is the first step of a change.
func (s *stream) begin(known map[string]string) step {
	c := &change{judges: map[string]*resource.Resource{}, asked: s.abouts()}
	asks, less := s.asksMeanwhile(c.asked)
	if less {
		s.asked = c.asked
		return keepsAsking
	}
	for name := range known {
		if now, ok := s.policed.view.Get(resource.Extension, name); ok && translate.IsLocalAuthorization(name) {
			c.judges[name] = now
		}
	}
	s.change = c
	sent := false
	for name, version := range known {
		now, ok := s.policed.view.Get(resource.Extension, name)
		if b := asks[name]; b != nil {
			now = b
		}
		sent = sent || ok && translate.CallsAuthorizer(name) && version != now.Version
	}
	if !sent { // Envoy has it of a change that was not to be, after all
		return c.judging
	}
	return func(now *resource.Resource) *resource.Resource {
		if b := asks[now.Name]; b != nil {
			return b
		}
		return keepsIf(translate.IsLocalAuthorization(now.Name), now)
	}
}

// judging is the second step.
func (c *change) judging(now *resource.Resource) *resource.Resource {
	if r := c.judges[now.Name]; r != nil {
		return r
	}
	return keepsIf(translate.CallsAuthorizer(now.Name), now)
}

// lacks says whether Envoy does not have what judges after the change.
func (c *change) lacks(known map[string]string) bool {
	for name, r := range c.judges {
		if version, ok := known[name]; ok && version != r.Version {
			return true
		}
	}
	return false
}

// abouts is what is served that says what somebody is asked about, and who.
func (s *stream) abouts() map[string]*resource.Resource {
	out := map[string]*resource.Resource{}
	for _, about := range translate.AuthorizerInputs() {
		for _, name := range []string{about, translate.AuthorizerFilterName(about)} {
			if r, ok := s.policed.view.Get(resource.Extension, name); ok {
				out[name] = r
			}
		}
	}
	return out
}

// asksMeanwhile makes of what is to say what somebody is asked about what says it while a change lasts. less says that nobody is to be asked any more, or
// nobody knows what before was: then what judges goes first.
func (s *stream) asksMeanwhile(abouts map[string]*resource.Resource) (meanwhile map[string]*resource.Resource, less bool) {
	meanwhile = map[string]*resource.Resource{}
	mixed := false
	for _, name := range translate.AuthorizerInputs() {
		now, before := abouts[name], s.asked[name]
		switch {
		case now == nil:
		case sameVersion(before, now):
		case before == nil || translate.CallsNoAuthorizer(before):
			less = less || translate.CallsNoAuthorizer(now)
		default:
			less = less || translate.CallsNoAuthorizer(now)
			mixed = mixed || !translate.CallsNoAuthorizer(now)
			asker := translate.AuthorizerFilterName(name)
			if b := s.policed.between(before, now, sameVersion(s.asked[asker], abouts[asker])); b != nil {
				meanwhile[name] = b
			}
		}
	}
	return meanwhile, less && !mixed
}

func sameVersion(a, b *resource.Resource) bool { return a != nil && b != nil && a.Version == b.Version }

// differs says whether Envoy knows another version of one of these filters than it is to have.
func (s *stream) differs(known map[string]string, these func(name string) bool) bool {
	for name, version := range known {
		if now, ok := s.policed.view.Get(resource.Extension, name); ok && version != now.Version && these(name) {
			return true
		}
	}
	return false
}
