package kube

import (
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
)

// NewDeciding makes a source of what says what becomes of traffic, for who asks about it and programs nothing: no Secret and no ConfigMap
// is read, no Node, and no kind that nothing is programmed by.
func NewDeciding(config *rest.Config, o Options) *Source {
	s := New(config, o)
	s.kinds, s.unnamed = decidingKinds(), true
	s.store = newStore(s.kinds)
	return s
}

// decidingKinds are those of kinds that decisions depend on.
func decidingKinds() []kind {
	return slices.DeleteFunc(kinds(), func(k kind) bool {
		switch k.Kind {
		case config.KindNode, config.KindWorkloadGroup, config.KindProxyConfig, config.KindTelemetry, config.KindEnvoyFilter, config.KindWasmPlugin, config.KindTrafficExtension:
			return true
		}
		return false
	})
}

// Trouble says which kinds cannot be read now, and, where the API server does not answer, since when nobody knows what it holds: what it
// held then stays in use.
func (s *Source) Trouble() (unread []admission.Finding, silent time.Time) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for _, k := range s.kinds {
		st := s.store.kinds[k.Kind]
		if st.silent >= quietFailures && (silent.IsZero() || st.heard.Before(silent)) {
			silent = st.heard
		}
		for _, f := range st.findings() {
			if f.Severity == admission.Error {
				unread = append(unread, f)
			}
		}
	}
	return unread, silent
}
