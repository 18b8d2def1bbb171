package send

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"

	"github.com/sallyport/sallyport/egress/audit/ocsf"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// eventCollector is Splunk's HTTP Event Collector. It answers 200 when it has an event in its memory. Where its token has indexer acknowledgement on, the answer
// has a number beside, about which it is asked until it says that the events are indexed: only then are they taken.
// See https://docs.splunk.com/Documentation/Splunk/latest/Data/AboutHECIDXAck.
type eventCollector struct {
	*to
	channel string         // of this process: numbers are the channel's
	cookies http.CookieJar // a balancer's, so that who is asked is who took the events

	mu      sync.Mutex
	waiting map[uint64]struct{} // numbers of what was sent since settle began last, and is not indexed yet
	twice   bool                // one of them was given twice
}

// How a collector is asked.
const (
	channelHeader = "X-Splunk-Request-Channel"
	collectorPath = "/services/collector"
	askedAtOnce   = 1_000 // numbers
	askFirst      = 250 * time.Millisecond
	askAtLast     = 5 * time.Second // between two questions
)

func newEventCollector(t *to) (*eventCollector, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	return &eventCollector{to: t, channel: uuid.NewString(), cookies: jar, waiting: map[uint64]struct{}{}}, nil
}

// send writes events one after the other, as the collector takes them.
func (c *eventCollector) send(ctx context.Context, records []record.Record) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for i := range records {
		err := enc.Encode(struct {
			Time       float64    `json:"time"` // seconds
			Source     string     `json:"source"`
			Sourcetype string     `json:"sourcetype"`
			Event      ocsf.Event `json:"event"`
		}{float64(records[i].Time.UnixMilli()) / 1000, "sallyport", "ocsf", ocsf.FromRecord(records[i])})
		if err != nil {
			return err
		}
	}
	a, err := c.read()
	if err != nil {
		return err
	}
	answer, err := c.post(ctx, a, a.URL, b.Bytes())
	if err != nil {
		c.forget() // all of it is sent again
		return err
	}
	var taken struct {
		Number *uint64 `json:"ackId"`
	}
	if json.Unmarshal(answer, &taken) != nil || taken.Number == nil { // acknowledgement is off: 200 is all that it says
		return nil
	}
	if _, err := acknowledgements(a.URL); err != nil {
		return fmt.Errorf("%s: %w", c.Name(), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, twice := c.waiting[*taken.Number]; twice {
		c.twice = true
	}
	c.waiting[*taken.Number] = struct{}{}
	return nil
}

func (c *eventCollector) forget() (waiting map[uint64]struct{}, twice bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting, twice = c.waiting, c.twice
	c.waiting, c.twice = map[uint64]struct{}{}, false
	return waiting, twice
}

// waits says whether settle has to wait.
func (c *eventCollector) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting) > 0
}

// settle waits until all that was sent is indexed. What is not, within the time that there is, has to be sent again, and is forgotten.
func (c *eventCollector) settle(ctx context.Context) error {
	waiting, twice := c.forget()
	switch {
	case twice: // which of the two is meant when the number is said to be indexed nobody knows
		return fmt.Errorf("%s: it gave one number to two batches, so that it began anew, or several collectors stand behind the address and each counts by itself: all that was not acknowledged is sent again; let the balancer keep a client with one of them (by a cookie)", c.Name())
	case len(waiting) == 0:
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.Settle)
	defer cancel()
	sent, pauses := len(waiting), backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = askFirst, askAtLast
	for {
		before := len(waiting)
		if err := c.ask(ctx, waiting); err != nil && ctx.Err() == nil {
			return err
		}
		switch len(waiting) {
		case 0:
			return nil
		case before:
		default:
			pauses.Reset()
		}
		select {
		case <-time.After(pauses.NextBackOff()):
		case <-ctx.Done():
			return fmt.Errorf("%s: %d of %d batches were not acknowledged by the indexer within %s, and are sent again", c.Name(), len(waiting), sent, c.options.Settle)
		}
	}
}

// ask asks about numbers, and drops those of what is indexed.
func (c *eventCollector) ask(ctx context.Context, waiting map[uint64]struct{}) error {
	a, err := c.read()
	if err != nil {
		return err
	}
	where, err := acknowledgements(a.URL)
	if err != nil {
		return err
	}
	var question struct {
		Numbers []uint64 `json:"acks"`
	}
	for n := range waiting {
		if question.Numbers = append(question.Numbers, n); len(question.Numbers) == askedAtOnce {
			break
		}
	}
	raw, err := json.Marshal(question)
	if err != nil {
		return err
	}
	said, err := c.post(ctx, a, where, raw)
	if err != nil {
		return err
	}
	var answer struct {
		Indexed map[string]bool `json:"acks"`
	}
	if err := json.Unmarshal(said, &answer); err != nil {
		return fmt.Errorf("%s: its answer about acknowledgements is none: no JSON with acks", c.Name())
	}
	for text, is := range answer.Indexed {
		if n, err := strconv.ParseUint(text, 10, 64); err == nil && is {
			delete(waiting, n)
		}
	}
	return nil
}

// post sends a body in the collector's channel, again where that may help, and gives the answer.
func (c *eventCollector) post(ctx context.Context, a *address, where *url.URL, raw []byte) ([]byte, error) {
	channel := cmp.Or(a.headers[channelHeader], c.channel)
	return c.exchange(ctx, a, where, raw, func(client *http.Client, r *http.Request) {
		client.Jar = c.cookies
		r.Header.Set(channelHeader, channel)
	})
}

// acknowledgements is where a collector is asked for them, by where it takes events.
func acknowledgements(events *url.URL) (*url.URL, error) {
	before, rest, is := strings.Cut(events.Path, collectorPath)
	if !is || rest != "" && rest[0] != '/' {
		return nil, fmt.Errorf("the collector acknowledges what it indexes, and where it is asked for that is not known: the URL's path does not end in %s/event", collectorPath)
	}
	out := *events
	out.Path, out.RawPath, out.RawQuery = before+collectorPath+"/ack", "", ""
	return &out, nil
}
