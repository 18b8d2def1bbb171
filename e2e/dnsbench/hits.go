package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// hot is how many names are asked for again and again.
const hot = 1000

// names writes dnsperf's input.
func (b *bench) names() (string, error) {
	var text strings.Builder
	for i := range hot {
		fmt.Fprintf(&text, "h%d.hot.bench.example A\n", i)
	}
	return b.file("names", text.String())
}

// hits is one run of dnsperf.
type hits struct {
	rate  float64       // answers a second
	spent time.Duration // the server's processor time for one answer
	lost  int
}

var (
	ratePattern = regexp.MustCompile(`Queries per second:\s+([0-9.]+)`)
	donePattern = regexp.MustCompile(`Queries completed:\s+(\d+)`)
	lostPattern = regexp.MustCompile(`Queries lost:\s+(\d+)`)
)

// hit asks c for the hot names for a while.
func (b *bench) hit(ctx context.Context, c *contender, limit ...string) (hits, error) {
	host, port := c.addr.Addr().String(), fmt.Sprint(c.addr.Port())
	argv := append([]string{"dnsperf", "-s", host, "-p", port, "-d", b.input, "-q", fmt.Sprint(b.outstanding)}, limit...)
	before, err := c.cpu()
	if err != nil {
		return hits{}, err
	}
	out, err := b.pinned(ctx, loaderCore, argv...).CombinedOutput()
	if err != nil {
		return hits{}, fmt.Errorf("dnsperf at %s: %w\n%s", c.name, err, out)
	}
	after, err := c.cpu()
	if err != nil {
		return hits{}, err
	}
	rate, done := number(ratePattern, out), number(donePattern, out)
	if done == 0 {
		return hits{}, fmt.Errorf("dnsperf at %s: no answers\n%s", c.name, out)
	}
	return hits{rate: rate, spent: time.Duration(float64(after-before) / done), lost: int(number(lostPattern, out))}, nil
}

// number is the first group of the pattern in text. 0: it does not match.
func number(pattern *regexp.Regexp, text []byte) float64 {
	m := pattern.FindSubmatch(text)
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseFloat(string(m[1]), 64)
	return n
}
