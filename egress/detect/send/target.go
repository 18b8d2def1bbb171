package send

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/detect"
)

// Sink takes findings.
type Sink interface {
	Name() string
	// Send brings findings to the other side, MaxBatch of them at most; nil means that it has taken all of them.
	Send(ctx context.Context, findings []detect.Finding) error
}

// MaxBatch is how many findings one Send takes.
const MaxBatch = 100

// Options of sinks.
type Options struct {
	CAFile  string        // of roots that are trusted beside the system's
	Repeat  time.Duration // after which a finding that goes on is sent again: Alertmanager keeps it alive as long
	Now     func() time.Time
	Timeout time.Duration // of one try; default 10 s
	Pause   time.Duration // before the second try, more before later ones; default 1 s
	Settle  time.Duration // for which a receiver of records may have them without saying that it has taken them; default 5 min
}

// tries is how often one Send tries at most.
const tries = 4

// kinds of targets: what their URLs are of, the schemes that these may have, and what stands behind the scheme.
var kinds = map[string]struct {
	what    string
	schemes []string
	rest    string
}{
	"webhook":      {"a webhook", []string{"https", "http"}, "HOST/PATH"},
	"slack":        {"an incoming webhook of Slack", []string{"https", "http"}, "hooks.slack.com/services/…"},
	"alertmanager": {"an Alertmanager", []string{"https", "http"}, "HOST:9093"},
	"otlp":         {"an OTLP receiver of logs", []string{"https", "http"}, "HOST:4318/v1/logs"},
	"syslog":       {"a syslog server", []string{"tls", "tcp", "udp"}, "HOST:6514"},
	"ocsf":         {"a receiver of OCSF events", []string{"https", "http"}, "HOST/PATH"},
	"splunk":       {"Splunk's HTTP Event Collector", []string{"https", "http"}, "HOST:8088/services/collector/event"},
	"kafka":        {"a topic of Kafka", []string{"tls", "tcp"}, "HOST:9093/TOPIC"},
}

// Kinds are their names.
var Kinds = []string{"webhook", "slack", "alertmanager", "syslog", "otlp"}

// New makes the sink of KIND=FILE. It reads the file once, to say what is wrong with it.
func New(target string, o Options) (Sink, error) {
	t, err := newTo(target, Kinds, o)
	if err != nil {
		return nil, err
	}
	switch t.kind {
	case "slack":
		return slack{t}, nil
	case "alertmanager":
		return alertmanager{t}, nil
	case "syslog":
		return syslog{t}, nil
	case "otlp":
		return otlp{t}, nil
	}
	return webhook{t}, nil
}

// newTo reads a target of one of some kinds.
func newTo(target string, known []string, o Options) (*to, error) {
	kind, file, ok := strings.Cut(target, "=")
	if !ok || !slices.Contains(known, kind) || file == "" {
		return nil, fmt.Errorf("%q: write KIND=FILE; KIND is one of %s, and FILE holds the URL", target, strings.Join(known, ", "))
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Pause <= 0 {
		o.Pause = time.Second
	}
	if o.Settle <= 0 {
		o.Settle = 5 * time.Minute
	}
	t := &to{kind: kind, file: file, options: o}
	if _, err := t.read(); err != nil {
		return nil, err
	}
	if _, err := t.tls(); err != nil {
		return nil, err
	}
	return t, nil
}

// to is where a sink sends.
type to struct {
	kind, file string
	options    Options
	keeps      bool  // connections, for the next message
	kept       *kept // nil where there is none
	divides    bool  // what takes too long is not sent again as it is, since the caller has less of it sent
}

// Name implements Sink: the kind, and the file, which tells sinks of one kind apart.
func (t *to) Name() string { return t.kind + "=" + t.file }

// address is what a target's file says.
type address struct {
	*url.URL
	headers map[string]string
}

// maxFile is how long such a file may be.
const maxFile = 16 << 10

// read reads the file: a URL, and below it a header a line, "Name: value". Lines that begin with # are comments. What is wrong is said
// without what it says.
func (t *to) read() (*address, error) {
	f, err := os.Open(t.file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.kind, err)
	}
	defer f.Close()
	a, kind := &address{headers: map[string]string{}}, kinds[t.kind]
	lines := bufio.NewScanner(io.LimitReader(f, maxFile))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case a.URL == nil:
			if a.URL, err = url.Parse(line); err != nil || !slices.Contains(kind.schemes, a.Scheme) || a.Hostname() == "" {
				return nil, fmt.Errorf("%s: %s: line %d is not the URL of %s: write it like %s://%s, or with %s://", t.kind, t.file, n, kind.what, kind.schemes[0], kind.rest, strings.Join(kind.schemes[1:], ":// or "))
			}
		default:
			name, value, ok := strings.Cut(line, ":")
			if !ok || name == "" || strings.ContainsAny(name, " \t") || t.kind == "syslog" {
				return nil, fmt.Errorf("%s: %s: line %d is no header: write Name: value below the URL", t.kind, t.file, n)
			}
			a.headers[http.CanonicalHeaderKey(name)] = strings.TrimSpace(value)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", t.kind, t.file, err)
	}
	if a.URL == nil {
		return nil, fmt.Errorf("%s: %s is empty: its first line is the URL", t.kind, t.file)
	}
	return a, nil
}

// tls trusts the system's roots, and those of the CA file.
func (t *to) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.options.CAFile == "" {
		return config, nil
	}
	pem, err := os.ReadFile(t.options.CAFile)
	if err != nil {
		return nil, fmt.Errorf("roots: %w", err)
	}
	if config.RootCAs, err = x509.SystemCertPool(); err != nil {
		config.RootCAs = x509.NewCertPool()
	}
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("roots: %s holds no certificate", t.options.CAFile)
	}
	return config, nil
}

// withoutAddress is an error whose text says nothing of the address.
type withoutAddress struct {
	text string
	slow bool
}

func (e withoutAddress) Error() string { return e.text }

// Timeout says whether the other side took longer than it has, as net.Error does.
func (e withoutAddress) Timeout() bool { return e.slow }

// secretive leaves the address out of an error.
func (a *address) secretive(err error) error {
	slow := tookTooLong(err)
	var wrapped *url.Error // "Post URL: why"
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	text := err.Error()
	for _, secret := range []string{a.String(), a.RequestURI()} {
		if len(secret) > 1 {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return withoutAddress{text, slow}
}
