package login

import (
	"crypto/rand"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Bounds of sessions: of all of them, of one since it began, and since it was used last.
const (
	mostSessions = 4_096
	mostEach     = 8 // of one user: who logs in again and again puts nobody else out
	sessionEnds  = 12 * time.Hour
	sessionRests = time.Hour
)

// cookie has the prefix by which browsers take it from this host alone, over TLS, for all paths.
const cookie = "__Host-sallyport"

// session is somebody who logged in: by a token, which is asked about again and again, or by an issuer's word.
type session struct {
	token string
	user  User   // where there is no token
	hint  string // what the issuer knows the login by, to end it there; "" where that is not wanted
	ends  time.Time
	used  atomic.Int64 // when it was, in nanoseconds since 1970
}

// sessions are in memory: after a restart people log in again. The one that was used the longest ago goes where there are too many.
type sessions struct {
	known *lru.Cache[string, *session]
	mu    sync.Mutex
	of    *lru.Cache[string, []string] // the sessions of each user, the oldest first
}

func newSessions() *sessions {
	return &sessions{known: newCache[string, *session](mostSessions), of: newCache[string, []string](mostSessions)}
}

// begin remembers somebody, and gives the browser its cookie. The oldest session of the same name ends where they are too many.
func (s *sessions) begin(w http.ResponseWriter, x *session, name string, now time.Time) {
	x.ends = now.Add(sessionEnds)
	x.used.Store(now.UnixNano())
	id := rand.Text() + rand.Text()
	setCookie(w, cookie, id, 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	before, _ := s.of.Get(name)
	before = slices.DeleteFunc(slices.Clone(before), func(id string) bool { return !s.known.Contains(id) })
	if len(before) >= mostEach {
		s.known.Remove(before[0])
		before = before[1:]
	}
	s.of.Add(name, append(before, id))
	s.known.Add(id, x)
}

// find is the session of a request, which uses it.
func (s *sessions) find(r *http.Request, now time.Time) (*session, bool) {
	id := idOf(r)
	x, ok := s.known.Get(id)
	if !ok {
		return nil, false
	}
	if rested := now.UnixNano() - x.used.Load(); !now.Before(x.ends) || rested >= int64(sessionRests) {
		s.known.Remove(id)
		return nil, false
	}
	x.used.Store(now.UnixNano())
	return x, true
}

func (s *sessions) end(r *http.Request) { s.known.Remove(idOf(r)) }

func idOf(r *http.Request) string {
	if c, err := r.Cookie(cookie); err == nil {
		return c.Value
	}
	return ""
}

// setCookie gives a browser a value that no script reads and no other site's request carries, but for links that lead here.
func setCookie(w http.ResponseWriter, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: maxAge, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode})
}
