package console

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/egress/console/login"
	"github.com/sallyport/sallyport/egress/simulate"
	"github.com/sallyport/sallyport/serviceentry/policy"
)

// scope is what a reader sees of the configuration: who reads the records of some namespaces sees what becomes of their workloads, and the
// objects of these namespaces. Of the root namespace, which decides about everybody, and of no other, it sees what an object that decides is called.
type scope struct {
	login.Reader
	config *Config
	others map[string]bool // names of namespaces that it is not told of
}

// scopeOf is that of who asks.
func scopeOf(ctx context.Context, c *Config) scope {
	s := scope{Reader: readerOf(ctx), config: c}
	if s.All {
		return s
	}
	s.others = map[string]bool{}
	for i := range c.Objects {
		k := &c.Objects[i].Key
		ns := k.Namespace
		if ns == "" { // a Namespace is one itself; of other kinds it is a name that is left out, too
			ns = k.Name
		}
		if !s.names(ns) {
			s.others[ns] = true
		}
	}
	return s
}

// has says whether a namespace is one of the reader's.
func (s scope) has(namespace string) bool {
	return s.All || slices.Contains(s.Namespaces, namespace)
}

// names says whether an object of a namespace may be named, as that which decides.
func (s scope) names(namespace string) bool {
	return namespace == "" || namespace == s.config.Snapshot.Mesh.RootNamespace || s.has(namespace)
}

var errElsewhereAsked = errors.New("the configuration is asked about workloads of namespaces whose records you may read")

// asks says whether the reader may ask about workloads of a namespace.
func (s scope) asks(namespace string) error {
	if s.has(namespace) {
		return nil
	}
	return forbidden{errElsewhereAsked}
}

// writes says whether the reader may ask what would be with objects of a namespace.
func (s scope) writes(kind, namespace string) error {
	if s.has(namespace) {
		return nil
	}
	return forbidden{fmt.Errorf("what would be with a %s of namespace %q is for those who may read the records of all namespaces: it may be about others' traffic", kind, namespace)}
}

const ofOthers = " of another namespace"

// by is who decides, without the name of others' objects.
func (s scope) by(d policy.DecidedBy) policy.DecidedBy {
	if s.names(d.Namespace) {
		return d
	}
	return policy.DecidedBy{Kind: d.Kind + ofOthers}
}

// names of objects and namespaces in a text: "shop/partners", "namespace shop", "db.shop.svc.cluster.local".
var named = regexp.MustCompile(`[A-Za-z0-9][A-Za-z0-9._/-]*`)

// veil leaves out of a text what it calls by the names of other namespaces, and rather a word too many.
func (s scope) veil(text string) string {
	if s.All {
		return text
	}
	return named.ReplaceAllStringFunc(policy.Unshared(text, s.names), func(word string) string {
		for part := range strings.FieldsFuncSeq(word, func(r rune) bool { return r == '/' || r == '.' }) {
			if s.others[strings.ToLower(part)] {
				return "(another namespace's)"
			}
		}
		return word
	})
}

// explanation is one without what it says of others.
func (s scope) explanation(e policy.Explanation) policy.Explanation {
	if s.All {
		return e
	}
	if !s.names(e.DecidedBy.Namespace) {
		e.Suggestion = ""
	}
	if ns, _, _ := strings.Cut(e.Gateway, "/"); !s.names(ns) {
		e.Gateway = ""
	}
	e.DecidedBy, e.Reason, e.Cluster = s.by(e.DecidedBy), s.veil(e.Reason), s.veil(e.Cluster)
	if e.WouldDeny != nil {
		would := s.by(*e.WouldDeny)
		e.WouldDeny = &would
	}
	e.Policies, e.Authorization = s.steps(e.Policies), s.steps(e.Authorization)
	return e
}

func (s scope) steps(all []policy.PolicyStep) (out []policy.PolicyStep) {
	for _, x := range all {
		if s.names(x.Namespace) {
			out = append(out, x)
		}
	}
	return out
}

// report is one without what it says of others' objects. Its inputs are the reader's already.
func (s scope) report(r *simulate.Report) {
	if s.All {
		return
	}
	for _, list := range [][]simulate.Change{r.NewlyDenied, r.NewlyAllowed, r.WouldDeny} {
		for i := range list {
			for _, side := range []*simulate.Side{&list[i].Before, &list[i].After} {
				side.DecidedBy, side.Reason = s.by(side.DecidedBy), s.veil(side.Reason)
			}
		}
	}
	for i := range r.Why {
		r.Why[i].Why = s.veil(r.Why[i].Why)
	}
}

// objectName is what a deciding object is called.
func objectName(d policy.DecidedBy) string {
	if d.Namespace+d.Name == "" {
		return d.Kind
	}
	return d.Kind + " " + d.Namespace + "/" + d.Name
}
