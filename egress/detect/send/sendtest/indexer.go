// Package sendtest has receivers for tests.
package sendtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
)

// Authorization is the header that an Indexer wants.
const Authorization = "Splunk abc"

// Indexer is an HTTP Event Collector with acknowledgement, as Splunk documents it: it answers when it has events in memory, with a number of the channel; they are
// indexed when it was asked about them so often; a number is true once. One that crashes forgets what is not indexed, and counts anew.
type Indexer struct {
	// Asks is how often it is asked about events before they are indexed.
	Asks int

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]*pending
	indexed map[string]int // how often, by id
	channel string
	trouble []string
}

type pending struct {
	ids   []string
	asked int
}

// Crash makes it forget what is not indexed.
func (x *Indexer) Crash() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.next, x.waiting = 0, nil
}

func (x *Indexer) wrong(format string, args ...any) {
	x.trouble = append(x.trouble, fmt.Sprintf(format, args...))
}

// ServeHTTP implements http.Handler.
func (x *Indexer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x.mu.Lock()
	defer x.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	channel := r.Header.Get("X-Splunk-Request-Channel")
	if channel == "" {
		http.Error(w, `{"text":"Data channel is missing","code":10}`, http.StatusBadRequest)
		return
	}
	if channel != x.channel { // another sender
		x.channel, x.next, x.waiting = channel, 0, nil
	}
	if r.Header.Get("Authorization") != Authorization {
		x.wrong("it comes with %q", r.Header.Get("Authorization"))
	}
	switch r.URL.Path {
	case "/services/collector/event":
		p := &pending{}
		for line := range bytes.Lines(body) {
			var e struct {
				Event struct {
					Metadata struct {
						UID string `json:"uid"`
					} `json:"metadata"`
				} `json:"event"`
			}
			if err := json.Unmarshal(line, &e); err != nil {
				x.wrong("%s: %v", line, err)
			}
			p.ids = append(p.ids, e.Event.Metadata.UID)
		}
		if x.waiting == nil {
			x.waiting = map[uint64]*pending{}
		}
		x.waiting[x.next] = p
		w.Header().Set("Set-Cookie", "collector=7; Path=/")
		fmt.Fprintf(w, `{"text":"Success","code":0,"ackId":%d}`, x.next)
		x.next++
	case "/services/collector/ack":
		if c, err := r.Cookie("collector"); err != nil || c.Value != "7" {
			x.wrong("a balancer would not know whom to ask: %v", err)
		}
		var q struct{ Acks []uint64 }
		if err := json.Unmarshal(body, &q); err != nil || len(q.Acks) == 0 {
			x.wrong("%s: %v", body, err)
		}
		answer := map[string]bool{}
		for _, n := range q.Acks {
			p := x.waiting[n]
			if p != nil {
				p.asked++
			}
			is := p != nil && p.asked > x.Asks
			if answer[fmt.Sprint(n)] = is; is {
				for _, id := range p.ids {
					if x.indexed == nil {
						x.indexed = map[string]int{}
					}
					x.indexed[id]++
				}
				delete(x.waiting, n)
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"acks": answer})
	default:
		x.wrong("%s", r.URL)
	}
}

// Indexed is how often events were indexed, by their ids.
func (x *Indexer) Indexed() map[string]int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.indexed)
}

// Trouble is what came that should not have.
func (x *Indexer) Trouble() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.trouble)
}
