package policy

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Question is what somebody asks, as text: of which workload, and about which request.
type Question struct {
	URL, From, Account, Method string
	Path                       string   // as the request has it, in place of the URL's
	Headers                    []string // NAME=VALUE
	At                         string   // RFC 3339; "" is now
	Address                    string   // the workload's; "" where nobody knows
	To                         string   // the pod that it comes to; "" asks what happens on the way out of the workload
	Plaintext                  bool     // with To: it does not come by mutual TLS
	Claims                     []string // NAME=VALUE, of the request's token
	Gateway                    string   // the ingress gateway to which somebody outside sends it; "" asks about what workloads send
	// Secrets is whether it is known which Secrets there are; it is whoever answers who knows, and no part of Values.
	Secrets registry.SecretAccess
}

// Values writes it for a query.
func (q Question) Values() url.Values {
	return url.Values{"url": {q.URL}, "from": {q.From}, "account": {q.Account}, "method": {q.Method}, "path": {q.Path}, "header": q.Headers, "at": {q.At}, "address": {q.Address}, "to": {q.To}, "plaintext": {strconv.FormatBool(q.Plaintext)}, "claim": q.Claims, "gateway": {q.Gateway}}
}

// QuestionOf reads a query.
func QuestionOf(v url.Values) Question {
	return Question{
		URL: v.Get("url"), From: v.Get("from"), Account: v.Get("account"), Method: v.Get("method"), Path: v.Get("path"), Headers: v["header"], At: v.Get("at"), Address: v.Get("address"),
		To: v.Get("to"), Plaintext: v.Get("plaintext") == "true", Claims: v["claim"], Gateway: v.Get("gateway"),
	}
}

// Workload reads who asks.
func (q Question) Workload() (Workload, error) {
	w, err := ParseWorkload(q.From)
	if err != nil {
		return w, fmt.Errorf("--from %w", err)
	}
	w.Account = q.Account
	if q.Address != "" {
		if w.Address, err = netip.ParseAddr(q.Address); err != nil {
			return w, fmt.Errorf("--address %q: must be an address like 10.0.0.7", q.Address)
		}
	}
	return w, nil
}

// Destination reads what is asked for.
func (q Question) Destination() (Destination, error) {
	d, err := ParseDestination(q.URL)
	if err != nil {
		return d, err
	}
	if q.Method != "" || q.Path != "" || len(q.Headers) > 0 {
		if d.Scheme != HTTP && (q.Gateway == "" || d.Scheme != HTTPS) {
			return d, fmt.Errorf("--method, --path and --header: proxies read no requests in %s; ask for an http:// URL", d.Scheme)
		}
	}
	if q.Path != "" {
		if !strings.HasPrefix(q.Path, "/") {
			return d, fmt.Errorf("--path %q: must begin with /", q.Path)
		}
		d.Path = q.Path
	}
	if strings.Trim(strings.ToLower(q.Method), ofTokens) != "" {
		return d, fmt.Errorf("--method %q: no method is called so", q.Method)
	}
	d.Method, d.Headers = strings.ToUpper(q.Method), map[string][]string{}
	for _, h := range q.Headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok || name == "" {
			return d, fmt.Errorf("--header %q: must be NAME=VALUE", h)
		}
		name = strings.ToLower(name)
		if strings.Trim(name, ofTokens) != "" || name == "host" && q.Gateway == "" {
			return d, fmt.Errorf("--header %q: no header of a request is called so; say the host in the URL, and the path by --path", h)
		}
		d.Headers[name] = append(d.Headers[name], strings.Trim(value, " \t")) // who reads a header leaves spaces around its value out
	}
	if d.At, err = ParseTime(q.At); err != nil {
		return d, err
	}
	return d, nil
}

// ofTokens is what methods and headers' names are made of (RFC 9110, 5.6.2), in lower case.
const ofTokens = lowerCase + "!#$%&'*+-.^_`|~"

// ParseTime reads a time of RFC 3339; the zero time is for "".
func ParseTime(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return at, fmt.Errorf("--at %q: must be a time like 2030-12-31T00:00:00Z", s)
	}
	return at, nil
}
