package story

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sallyport/sallyport/e2e/world"
)

// Reply is what the application's curl got.
type Reply struct {
	URL           string
	Status        int    // of HTTP; 0 when none came
	ConnectStatus int    // of a proxy's answer to CONNECT
	Exit          int    // curl's exit code; 0: it worked
	Error         string // curl's words
	Body          string
	Remote        string // address that curl connected to
}

// String is for messages.
func (r Reply) String() string {
	switch {
	case r.Exit != 0 && r.Error != "":
		return fmt.Sprintf("%s: curl (%d) %s", r.URL, r.Exit, r.Error)
	case r.Exit != 0:
		return fmt.Sprintf("%s: curl (%d)", r.URL, r.Exit)
	default:
		return fmt.Sprintf("%s: %d", r.URL, r.Status)
	}
}

// OK says whether a server of the outside answered, over TLS that curl verified where the URL is https.
func (r Reply) OK() bool {
	return r.Exit == 0 && r.Status == 200 && strings.Contains(r.Body, "says hello")
}

// must turns a reply that is not OK into an error.
func (r Reply) must() error {
	if r.OK() {
		return nil
	}
	return fmt.Errorf("want 200 from the outside, got %s %s", r, excerpt(r.Body))
}

// figures divides curl's own words from the figures that it writes after them.
const figures = "\n@@figures "

// requestWithin is how long a request may take, in seconds, on a machine with much else to do.
const requestWithin = "40"

// noSuchName is curl's exit code for a name that cannot be resolved.
const noSuchName = 6

// get makes one request on a new connection, as the application. Only a curl that cannot be run is an error. Further
// arguments are curl's.
func (s *Scene) get(ctx context.Context, url string, more ...string) (Reply, error) {
	args := append(s.curlArgs(), "--max-time", requestWithin, "-w", "%{stderr}"+figures+"%{json}")
	args = append(append(args, more...), url)
	cmd := s.client(ctx, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := world.Await(cmd)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return Reply{}, fmt.Errorf("running curl: %w", err)
	}
	words, raw, ok := strings.Cut(stderr.String(), figures)
	if !ok {
		return Reply{}, fmt.Errorf("curl %s printed no figures: %s", url, stderr.String())
	}
	var fields struct {
		Status        int    `json:"http_code"`
		ConnectStatus int    `json:"http_connect"`
		Exit          int    `json:"exitcode"`
		Remote        string `json:"remote_ip"`
		Error         string `json:"errormsg"`
	}
	if err := json.Unmarshal([]byte(raw), &fields); err != nil {
		return Reply{}, fmt.Errorf("curl's figures %q: %w", raw, err)
	}
	if fields.Error == "" {
		fields.Error = strings.TrimSpace(words)
	}
	return Reply{
		URL: url, Status: fields.Status, ConnectStatus: fields.ConnectStatus, Exit: fields.Exit, Error: fields.Error,
		Body: stdout.String(), Remote: fields.Remote,
	}, nil
}

// known are curl's arguments for an application that knows the unregistered host's address without DNS: behind it is
// what becomes of the connection. A proxy resolves names itself.
func (s *Scene) known() []string {
	if !s.Namespaced() {
		return nil
	}
	var args []string
	for _, port := range []uint16{s.Outside.HTTPPort, s.Outside.HTTPSPort} {
		args = append(args, "--resolve", fmt.Sprintf("%s:%d:%s", unregisteredHost, port, s.unregistered))
	}
	return args
}

// curlArgs are the arguments that every request has: no ~/.curlrc, the outside's CA as the only trusted one, and on
// loopback the forward proxy.
func (s *Scene) curlArgs() []string {
	args := []string{"curl", "-q", "-sS", "--cacert", s.caFile()}
	if s.Up != nil {
		args = append(args, "--proxy", "http://"+s.Up.proxyAddr, "--noproxy", "")
	}
	return args
}

// caFile is where the outside's CA lies for everyone to read.
func (s *Scene) caFile() string { return filepath.Join(s.Run.Dir, "outside-ca.pem") }

// token is a text that occurs nowhere else.
func token() string { return strings.ToLower(rand.Text()) }

func excerpt(body string) string {
	const most = 200
	body = strings.TrimSpace(body)
	if len(body) > most {
		body = body[:most] + "…"
	}
	if body == "" {
		return "(no body)"
	}
	return fmt.Sprintf("%q", body)
}
