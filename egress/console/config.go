package console

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/visible"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/policy/matrix"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Config is the configuration in force.
type Config struct {
	Snapshot *registry.Snapshot
	Objects  []config.Change
	// Forward is the namespace that an explicit forward proxy acts for; "" where sidecars decide.
	Forward string
	// InCluster says that objects are a cluster's: what is written next is the youngest.
	InCluster bool
	// Try lends the registry that the snapshot is of, to one after the other, with the configuration that is in force by then. What is tried on it
	// is taken back (registry.Would), and nobody else sees it.
	Try func(ctx context.Context, f func(*Config, *registry.Registry) error) error
	// AsOf is when it was in force, where nobody knows whether it still is; zero: it is.
	AsOf time.Time
}

var errBroken = errors.New("a question broke what is known of the configuration: it is read anew, or with the server's next start")

// Lending makes c lend a registry that nothing else has. Where somebody does not come back as they should, nobody knows what is in it, and it is lent no more.
func (c *Config) Lending(r *registry.Registry) *Config {
	turn, broken := make(semaphore, 1), false
	c.Snapshot = r.Snapshot()
	c.Try = func(ctx context.Context, f func(*Config, *registry.Registry) error) error {
		done, err := wait(ctx, turn)
		if err != nil {
			return err
		}
		defer done()
		if broken {
			return missing{errBroken}
		}
		broken = true // unless f returns
		err = f(c, r)
		broken = false
		return err
	}
	return c
}

func (c *Config) decide(s *registry.Snapshot, w policy.Workload, d policy.Destination) policy.Verdict {
	if c.Forward != "" {
		return policy.DecideForward(s, c.Forward, d)
	}
	return policy.Decide(s, w, d)
}

var errNoConfig = errors.New("the configuration in force is not known to this server: it reads that of sallyport up, or of --config-dir")

// inForceFor is how long the configuration is the one that was read: as long as a few clicks take.
const inForceFor = 3 * time.Second

// Lately gives what was read some moments ago, for who has to read it from files each time.
func Lately(read func(context.Context) (*Config, error)) func(context.Context) (*Config, error) {
	last := newLately[*Config]()
	return func(ctx context.Context) (*Config, error) { return last.read(ctx, time.Now(), inForceFor, read) }
}

type awaitedKey struct{}

// awaited is a configuration that was asked for before a page had its turn, or why there is none.
type awaited struct {
	*Config
	error
}

// awaited asks for it.
func (h *handler) awaited(ctx context.Context) context.Context {
	if h.Config == nil {
		return ctx
	}
	c, err := h.Config(ctx)
	return context.WithValue(ctx, awaitedKey{}, awaited{c, err})
}

// config gives the configuration.
func (h *handler) config(ctx context.Context) (*Config, error) {
	if h.Config == nil {
		return nil, missing{errNoConfig}
	}
	got, known := ctx.Value(awaitedKey{}).(awaited)
	if !known {
		got.Config, got.error = h.Config(ctx)
	}
	c, err := got.Config, got.error
	switch {
	case err == nil && c.Forward != "" && !readerOf(ctx).All:
		return nil, forbidden{errNotAll}
	case err == nil:
		return c, nil
	case readerOf(ctx).All:
		return nil, missing{fmt.Errorf("the configuration cannot be read: %w", err)}
	}
	h.Logger.Warn("console: the configuration cannot be read", "err", err)
	return nil, missing{errNotRead} // the error may name what others have
}

var errNotRead = errors.New("the configuration cannot be read; the server's log says why")

// basis is what an answer about the configuration rests on.
type basis struct {
	AsOf   time.Time // when it was in force; zero: it is
	Unread bool      // neither Secrets nor ConfigMaps were read
}

func (c *Config) basis() basis { return basis{c.AsOf, c.Snapshot.Unread()} }

// explained is what the configuration in force says of a destination.
type explained struct {
	From, URL string // what was asked
	Error     string // why there is no answer
	Command   string // which asks it elsewhere
	basis
	*policy.Explanation
}

// Allow is the YAML that would let it through, if any would.
func (x explained) Allow() string {
	if x.Explanation == nil {
		return ""
	}
	return x.Suggestion
}

// explainPage answers what would become of a destination.
func (h *handler) explainPage(ctx context.Context, r *http.Request, _ asked) (view, error) {
	x := explained{From: r.URL.Query().Get("from"), URL: r.URL.Query().Get("url")}
	if x.URL != "" {
		x = h.explain(ctx, x.From, x.URL, "", "", "")
	}
	return view{Template: "explain", Title: "Explain", Fixed: true, Data: x}, nil
}

// explain asks about a workload, with labels and account if they are known, and a URL.
func (h *handler) explain(ctx context.Context, from, to, account, labels, method string) explained {
	x := explained{From: from, URL: to, Command: "sallyport explain --from " + shellWord(from) + " " + shellWord(to)}
	c, err := h.config(ctx)
	if err != nil {
		x.Error = err.Error()
		return x
	}
	x.basis = c.basis()
	may, w := scopeOf(ctx, c), policy.Workload{}
	if c.Forward == "" {
		if w, err = policy.ParseWorkload(from); err != nil {
			x.Error = "who? " + err.Error()
			return x
		}
		if err := may.asks(w.Namespace); err != nil {
			x.Error, x.Command = err.Error(), ""
			return x
		}
		w.Account = account
		for pair := range strings.SplitSeq(labels, ",") {
			if k, v, ok := strings.Cut(pair, "="); ok {
				w.Labels[k] = v
			}
		}
		w = matrix.Known(w, c.workloads())
	} else {
		w.Namespace = c.Forward
	}
	d, err := policy.Question{URL: to, Method: method}.Destination()
	if err != nil {
		x.Error = err.Error()
		return x
	}
	d.At = h.Now()
	e := may.explanation(policy.Explain(w, d, c.decide(c.Snapshot, w, d)))
	x.Explanation = &e
	return x
}

// recordWaits is how long the page of a record waits for the configuration.
const recordWaits = time.Second

// explainRecord asks what would become of a record's request today.
func (h *handler) explainRecord(ctx context.Context, r *record.Record) explained {
	if r.Host == "" {
		return explained{Error: "the record names no host"}
	}
	to := net.JoinHostPort(r.Host, strconv.Itoa(int(r.Port)))
	method := ""
	switch r.Protocol {
	case "http":
		to, method = "http://"+to+r.URLPath, r.Method
	case "tls":
		to = "tls://" + to
	default:
		to = "tcp://" + to
	}
	ctx, cancel := context.WithTimeout(ctx, recordWaits) // the record is what was asked for
	defer cancel()
	w := r.Workload
	name := w.Name
	if name == "" {
		name = w.ServiceAccount
	}
	return h.explain(ctx, w.Namespace+"/"+name, to, w.ServiceAccount, w.Labels, method)
}

// shellWord writes a text so that a shell takes it as one word.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:*@%+=,") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(visible.Text(s), "'", `'\''`) + "'"
}

// workloads are the objects that workloads are known by.
func (c *Config) workloads() (out []*config.Object) {
	for _, x := range c.Objects {
		if x.Object != nil && matrix.Knows(x.Key.Kind) {
			out = append(out, x.Object)
		}
	}
	return out
}

// objects are those that there are.
func (c *Config) objects() (out []config.Object) {
	for _, x := range c.Objects {
		if x.Object != nil {
			out = append(out, *x.Object)
		}
	}
	return out
}
