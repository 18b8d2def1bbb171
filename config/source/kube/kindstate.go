package kube

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
)

// kindState is how the watching of one kind goes.
type kindState struct {
	kind    kind
	version string // of its API that is watched
	synced  bool   // everything was listed once
	absent  bool   // its CRD is not there
	// The errors of the newest list and watch; nil once they work again. A watch that works takes back both.
	listed, watched error
	silent          int // how often the server did not answer at all, in a row
	silence         error
	heard           time.Time // when the server last said something about it
}

// quietFailures is how many failures to reach the server are no finding yet: it may just restart. With the reflectors'
// waiting it takes about 6 seconds.
const quietFailures = 3

// silence is the note about a server that does not answer, whichever kind is asked for.
var silence = config.Key{Kind: "\x00silence"}

// settled says whether the first batch need not wait for the kind: it is listed, or known to be absent, or, once
// patience is at an end, the server answers that it cannot be listed.
func (st *kindState) settled(patient bool) bool {
	return st.synced || st.absent || (!patient && answered(st.listed))
}

// answered says whether an error is an answer of the API server, and not the lack of one.
func answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// all says whether every kind is settled, and whether any is synced, so that the server can be asked.
func (s *store) all(patient bool) (settled, any bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	settled = true
	for _, st := range s.kinds {
		settled = settled && st.settled(patient)
		any = any || (st.synced && !slices.Contains(namedKinds[:], st.kind.Kind))
	}
	return settled && s.secretsSettled(), any
}

// listResult notes how listing a kind went, watchResult how watching it did.
func (s *store) listResult(k kind, err error)  { s.result(k, err, false) }
func (s *store) watchResult(k kind, err error) { s.result(k, err, true) }

func (s *store) result(k kind, err error, watch bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.kinds[k.Kind]
	switch {
	case watch && err == nil:
		st.listed, st.watched = nil, nil
	case watch:
		st.watched = err
	default:
		st.listed = err
	}
	switch {
	case err == nil && watch:
		// The client calls a watch that broke off at once a good one; what comes over it tells.
	case err == nil || answered(err):
		st.silent, st.heard = 0, time.Now()
	default:
		st.silent, st.silence = st.silent+1, err
	}
	s.noteTrouble(st)
	s.signal()
}

// alive notes that something about a kind came from the server. The caller holds the lock.
func (s *store) alive(k kind) {
	st := s.kinds[k.Kind]
	if st.heard = time.Now(); st.silent > 0 {
		st.silent = 0
		s.noteTrouble(st)
		s.signal()
	}
}

// setVersion notes the version that a kind is served in; "" says that it has no CRD. A deleted CRD takes its objects
// with it.
func (s *store) setVersion(k kind, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.kinds[k.Kind]
	st.version, st.absent = version, version == ""
	if st.absent {
		st.synced, st.listed, st.watched, st.silent = false, nil, nil, 0
		for key := range s.objects[k.Kind] {
			s.drop(k, key)
		}
	}
	s.noteTrouble(st)
	s.signal()
}

// noteTrouble replaces the findings about a kind, and the one about a silent server.
func (s *store) noteTrouble(st *kindState) {
	s.notes.Set(config.Key{Kind: st.kind.Kind}, st.findings())
	for _, other := range s.kinds {
		if other.silent >= quietFailures {
			s.notes.Set(silence, []admission.Finding{{
				Severity: admission.Error, Origin: origin,
				Message: "the API server does not answer (" + reason(other.silence) + "); what it held stays in use",
				Fix:     "see that it runs and can be reached from here",
			}})
			return
		}
	}
	s.notes.Set(silence, nil)
}

func (st *kindState) findings() []admission.Finding {
	f := admission.Finding{Severity: admission.Error, Origin: origin}
	what := st.kind.GroupResource.String()
	err := st.listed
	if err == nil {
		err = st.watched
	}
	switch {
	case st.kind.Group == decode.GatewayGroup && (st.absent || apierrors.IsNotFound(err)):
		return nil // most clusters have not all of it
	case st.absent:
		f.Severity = admission.Warning
		f.Message = fmt.Sprintf("there is no CustomResourceDefinition %s, so there are no objects of kind %s", what, st.kind.Kind)
		f.Fix = "install it if you use them; they are read as soon as it is there"
	case !answered(err):
		return nil
	case apierrors.IsUnauthorized(err):
		f.Message = fmt.Sprintf("objects of kind %s cannot be read: the API server does not accept the credentials; what it held stays in use", st.kind.Kind)
		f.Fix = "they expired or were taken back: write others into the kubeconfig; of another cluster, sallyport remote-secret makes a Secret with new ones"
	case apierrors.IsForbidden(err):
		f.Message = fmt.Sprintf("objects of kind %s cannot be read: %s", st.kind.Kind, reason(err))
		f.Fix = "let the service account list and watch " + what
	case apierrors.IsNotFound(err):
		f.Message = fmt.Sprintf("objects of kind %s cannot be read: %s", st.kind.Kind, reason(err))
		f.Fix = "see that the CustomResourceDefinition " + what + " is established; this is tried again"
	default:
		f.Message = fmt.Sprintf("objects of kind %s cannot be read: %s", st.kind.Kind, reason(err))
		f.Fix = "see the API server's log; this is tried again"
	}
	return []admission.Finding{f}
}

// reason gives an error without what differs from one try to the next, as ports and times do.
func reason(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	text := err.Error()
	if i := strings.LastIndex(text, "failed to list "); i >= 0 {
		if _, after, ok := strings.Cut(text[i:], ": "); ok {
			text = after
		}
	}
	return text
}
