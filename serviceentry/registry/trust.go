package registry

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/named"
)

// Bundle names ConfigMaps and Secrets that together say whom to trust.
func Bundle(of []config.Key) CredentialRef {
	names := make([]string, len(of))
	for i, key := range of {
		names[i] = string(key.Kind) + "/" + key.Namespace + "/" + key.Name
	}
	slices.Sort(names)
	return CredentialRef{Bundle: strings.Join(slices.Compact(names), ",")}
}

// bundle gives what those of them hold that hold something: nil, and why, where none does.
func (s *Snapshot) bundle(names string) (*Credential, string) {
	var out Credential
	problem := ""
	for name := range strings.SplitSeq(names, ",") {
		kind, rest, _ := strings.Cut(name, "/")
		ns, name, _ := strings.Cut(rest, "/")
		c, why := s.Trusted(config.Key{Kind: config.Kind(kind), Namespace: ns, Name: name})
		if c == nil {
			problem = why
			continue
		}
		out.Roots = append(append(out.Roots, c.Roots...), '\n')
		if len(c.CRL) > 0 {
			out.CRL = append(append(out.CRL, c.CRL...), '\n')
		}
	}
	if len(out.Roots) == 0 {
		return nil, problem
	}
	return &out, ""
}

// Trusted gives the certificates that a ConfigMap or a Secret says to trust: nil, and why, where it says none.
func (s *Snapshot) Trusted(key config.Key) (*Credential, string) {
	h, there := s.trusted[key]
	if key.Kind == config.KindSecret {
		h, there = s.credentials[CredentialRef{Namespace: key.Namespace, Name: key.Name}]
	}
	at := fmt.Sprintf("%s %s/%s", key.Kind, key.Namespace, key.Name)
	switch {
	case !there:
		return nil, "there is no " + at + " that the control plane can read"
	case h.good == nil:
		return nil, at + ": " + h.problem
	case len(h.good.Roots) == 0:
		return nil, at + ": it holds no " + named.TrustKey
	}
	return h.good, ""
}

// setConfigMap takes one over.
func (b *batch) setConfigMap(c config.Change) {
	next := maps.Clone(b.next.trusted)
	if next == nil {
		next = map[config.Key]held{}
	}
	if delete(next, c.Key); c.Object != nil {
		next[c.Key] = readTrust(c.Object.Spec.(*corev1.ConfigMap))
	}
	b.next.trusted, b.changed.Credentials = next, true
}

// CheckTrust says what is wrong with a ConfigMap that is meant for roots, so that a broken one does not take the place of a good one.
// ConfigMaps for other things are fine.
func CheckTrust(m *corev1.ConfigMap) error {
	if h := readTrust(m); h.good == nil && m.Data[named.TrustKey] != "" {
		return errors.New(h.problem)
	}
	return nil
}

func readTrust(m *corev1.ConfigMap) held {
	roots := []byte(m.Data[named.TrustKey])
	switch {
	case len(roots) == 0:
		return held{problem: "it holds no " + named.TrustKey}
	case !holdsCertificates(roots):
		return held{problem: named.TrustKey + " holds no certificates in PEM form, or others than that"}
	}
	return held{good: &Credential{Roots: roots}}
}
