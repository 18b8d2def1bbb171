package login

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/sallyport/sallyport/config/pacedlog"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// Reader is who reads, and what.
type Reader struct {
	Name       string   // as the API server has it
	By         string   // who vouches for the name: record.ByToken or record.ByIssuer
	All        bool     // everything, and what is about the mesh as a whole
	Namespaces []string // otherwise those whose records may be read, in order; at least one
}

// User is somebody whom the API server can be asked about.
type User struct {
	Name   string              `json:"name"`
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
}

// Cluster is the API server.
type Cluster interface {
	// Who says whose a token is; ErrUnknown if nobody's.
	Who(ctx context.Context, token string) (User, error)
	// May says whether somebody may read the records of a namespace; "" is all of them.
	May(ctx context.Context, u User, namespace string) (bool, error)
}

// Options of a Gate.
type Options struct {
	Cluster Cluster
	// Namespaces are those that the log has; at most Most of them are asked about.
	Namespaces func(context.Context) ([]string, error)
	// Issuer, if set, vouches for people, too.
	Issuer *Issuer
	// Entered, if set, is told of who logs in, before they are; its error keeps them out.
	Entered func(ctx context.Context, r *http.Request, who Reader) error
	Logger  *slog.Logger
	Now     func() time.Time
}

// Errors that say what to answer.
var (
	ErrNobody  = errors.New("nobody is logged in")
	ErrUnknown = errors.New("the API server does not know this token: it may have ended, or belong to another cluster")
	ErrNothing = errors.New(`of all namespaces in the log, the records of none may be read: a role has to allow the verb "get" on "auditrecords" of "egress.sallyport.io"`)
	ErrTooMany = errors.New("too many logins from this address: wait some seconds")
	ErrUnasked = errors.New("the API server cannot be asked who may read")
	// ErrUnrecorded is of a login that the log does not take.
	ErrUnrecorded = errors.New("the login could not be recorded, and so is none; the server's log says why")
	errTooLong    = errors.New("the token is longer than any that an API server gives")
	errNoIssuer   = errors.New("no issuer of identities is configured")
	errOldAnswer  = errors.New("the login took too long, or was begun elsewhere: begin again")
)

// Bounds.
const (
	Most        = 2_000 // namespaces that are asked about
	answersFor  = time.Minute
	mostAnswers = 1_000
	mostMay     = 100_000
	askedWithin = 10 * time.Second
	// What is open at the same time, whoever asks.
	readersAtOnce = 4
	tokensAtOnce  = 16
	maxToken      = 16 << 10
	maxHint       = 2 << 10 // of a token that comes back in a header: what stands before the console may take no more than 4 KiB of these
)

// digest stands for a token, or a user: what is remembered holds nothing that could be presented.
type digest [sha256.Size]byte

// question is whether somebody may read a namespace's records.
type question struct {
	who       digest
	namespace string
}

// orNothing is the reader, or the error of one who may read nothing.
func (r Reader) orNothing() (Reader, error) {
	if r.All || len(r.Namespaces) > 0 {
		return r, nil
	}
	return Reader{}, fmt.Errorf("%s: %w", r.Name, ErrNothing)
}

// Gate knows who reads.
type Gate struct {
	Options
	sessions *sessions
	told     *slog.Logger                   // of what strangers cause
	attempts *attempts                      // with tokens
	codes    *attempts                      // with what the issuer is said to have given
	entered  *lru.Cache[visitor, time.Time] // when a login was recorded last
	users    remembered[digest, User]
	readers  remembered[digest, Reader]
	may      remembered[question, bool]
	asking   chan struct{} // one for each reader who is asked about
	reviews  chan struct{} // one for each token
	flights  singleflight.Group
}

// New makes a gate.
func New(o Options) *Gate {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Gate{
		Options: o, sessions: newSessions(), told: pacedlog.New(o.Logger, 300), attempts: newAttempts(), codes: newAttempts(), entered: newCache[visitor, time.Time](mostAddresses),
		users:   newRemembered[digest, User](mostAnswers, answersFor),
		readers: newRemembered[digest, Reader](mostAnswers, answersFor),
		may:     newRemembered[question, bool](mostMay, answersFor),
		asking:  make(chan struct{}, readersAtOnce), reviews: make(chan struct{}, tokensAtOnce),
	}
}

// Reader says who a request is from: by its Authorization header, else by its session. The error says what is missing.
func (g *Gate) Reader(r *http.Request) (Reader, error) {
	ctx, cancel := context.WithTimeout(r.Context(), askedWithin)
	defer cancel()
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, token, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return Reader{}, ErrNobody
		}
		if !g.attempts.left(r) {
			return Reader{}, ErrTooMany
		}
		reader, err := g.byToken(ctx, strings.TrimSpace(token))
		if errors.Is(err, ErrUnknown) {
			g.attempts.failed(r)
		}
		return reader.by(record.ByToken), err
	}
	s, ok := g.sessions.find(r, g.Now())
	switch {
	case !ok:
		return Reader{}, ErrNobody
	case s.token == "":
		reader, err := g.reads(ctx, s.user)
		return reader.by(record.ByIssuer), err
	}
	reader, err := g.byToken(ctx, s.token)
	if errors.Is(err, ErrUnknown) { // it ended since
		g.sessions.end(r)
		return Reader{}, ErrNobody
	}
	return reader.by(record.ByToken), err
}

// Refused logs that a request's reader is not let in.
func (g *Gate) Refused(r *http.Request, err error) {
	g.told.Warn("console: a reader is not let in", "from", r.RemoteAddr, "err", err)
}

// Token is the one that a request's reader is known by; "" of somebody whom an issuer vouches for, and of nobody.
func (g *Gate) Token(r *http.Request) string {
	if header := r.Header.Get("Authorization"); header != "" {
		_, token, _ := strings.Cut(header, " ")
		return strings.TrimSpace(token)
	}
	if s, ok := g.sessions.find(r, g.Now()); ok {
		return s.token
	}
	return ""
}

// by is a reader for whose name somebody vouches.
func (r Reader) by(who string) Reader {
	if r.Name != "" {
		r.By = who
	}
	return r
}

// byToken asks whose a token is, and what they read.
func (g *Gate) byToken(ctx context.Context, token string) (Reader, error) {
	if len(token) > maxToken {
		return Reader{}, errTooLong
	}
	key := digest(sha256.Sum256([]byte(token)))
	user, known := g.users.get(key, g.Now())
	if !known {
		select {
		case g.reviews <- struct{}{}:
		case <-ctx.Done():
			return Reader{}, fmt.Errorf("%w: %w", ErrUnasked, ctx.Err())
		}
		var err error
		user, err = g.Cluster.Who(ctx, token)
		<-g.reviews
		if err != nil {
			return Reader{}, err
		}
		g.users.add(key, user, g.Now())
	}
	return g.reads(ctx, user)
}

// reads asks what somebody reads. An answer holds for a minute.
func (g *Gate) reads(ctx context.Context, u User) (Reader, error) {
	text, err := json.Marshal(u)
	if err != nil {
		return Reader{}, err
	}
	key := digest(sha256.Sum256(text))
	if reader, known := g.readers.get(key, g.Now()); known {
		return reader.orNothing()
	}
	answer := g.flights.DoChan(string(key[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*askedWithin) // what is answered counts for who asks again
		defer cancel()
		select {
		case g.asking <- struct{}{}:
			defer func() { <-g.asking }()
		case <-ctx.Done():
			return Reader{}, fmt.Errorf("%w: %w", ErrUnasked, ctx.Err())
		}
		reader, err := g.ask(ctx, u, key)
		if err == nil {
			g.readers.add(key, reader, g.Now())
		}
		return reader, err
	})
	select {
	case a := <-answer:
		reader, _ := a.Val.(Reader)
		if a.Err != nil {
			return Reader{}, a.Err
		}
		return reader.orNothing()
	case <-ctx.Done():
		return Reader{}, fmt.Errorf("%w: %w", ErrUnasked, ctx.Err())
	}
}
