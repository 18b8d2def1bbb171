package review

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/actions"
	"github.com/sallyport/sallyport/egress/suggest"
)

// The states of an item: those that somebody's word gives it are called as in the log.
const (
	StateWaiting  = "waiting"
	StateApproved = actions.Approved
	StateRejected = actions.Rejected
	StateSnoozed  = actions.Snoozed
)

// Item is one workload, host and port.
type Item struct {
	ID        string    `json:"id"`
	State     string    `json:"state"`
	Namespace string    `json:"namespace"`
	Workload  string    `json:"workload"` // its service account
	Host      string    `json:"host"`
	Port      uint32    `json:"port,omitempty"` // 0 where DNS refused the name: nobody knows it
	Why       string    `json:"why,omitempty"`  // it waits; "" where the evidence is gone
	First     time.Time `json:"first,omitzero"`
	Last      time.Time `json:"last,omitzero"`
	Days      int       `json:"daysActive,omitempty"`
	Replicas  int       `json:"replicas,omitempty"`
	Records   uint64    `json:"records,omitempty"`
	Denied    uint64    `json:"denied,omitempty"` // of the records
	Sent      uint64    `json:"bytesSent,omitempty"`
	Received  uint64    `json:"bytesReceived,omitempty"`
	Decision  *Decision `json:"decision,omitempty"` // the last one
}

// ID is what an item is called: a hash of what it is about, so it is the same tomorrow, and on another machine. It is short enough to be typed, and so short that whoever
// chooses hosts finds two that have the same one: what was decided is told apart by what it is about (subject), and an id of two items is nobody's (Find).
func ID(namespace, workload, host string, port uint32) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "sallyport review\x00%s\x00%s\x00%s\x00%d", namespace, workload, host, port))
	return hex.EncodeToString(sum[:idBytes])
}

const idBytes = 6

// subject is what an item, or a decision, is about.
type subject struct {
	namespace, workload, host string
	port                      uint32
}

func (i *Item) subject() subject { return subject{i.Namespace, i.Workload, i.Host, i.Port} }

func (d *Decision) subject() subject { return subject{d.Namespace, d.Workload, d.Host, d.Port} }

// IsID says whether a text could be one.
func IsID(text string) bool {
	return len(text) == 2*idBytes && strings.Trim(text, "0123456789abcdef") == ""
}

// Items gives what waits, with what was decided about it, and what was decided and waits no more.
func Items(waiting []suggest.Wait, decisions []Decision, now time.Time) (out []Item) {
	last := map[subject]*Decision{}
	for i := range decisions {
		last[decisions[i].subject()] = &decisions[i]
	}
	there := map[subject]bool{}
	for _, w := range waiting {
		i := Item{
			ID: ID(w.Namespace, w.Account, w.Host, w.Port), State: StateWaiting, Namespace: w.Namespace, Workload: w.Account, Host: w.Host, Port: w.Port, Why: w.Why,
			First: w.First, Last: w.Last, Days: len(w.Days), Replicas: w.Pods(), Records: w.Records, Denied: w.Denied, Sent: w.BytesSent, Received: w.BytesReceived,
		}
		if d := last[i.subject()]; d != nil {
			i.Decision = d
			if d.Action != StateSnoozed || now.Before(d.Until) {
				i.State = d.Action
			}
		}
		there[i.subject()] = true
		out = append(out, i)
	}
	for i := range decisions {
		d := &decisions[i]
		if !there[d.subject()] && last[d.subject()] == d {
			out = append(out, Item{ID: d.ID, State: d.Action, Namespace: d.Namespace, Workload: d.Workload, Host: d.Host, Port: d.Port, Decision: d})
		}
	}
	return out
}

// Find gives the item that a word is to be said about. The error says why there is none: the id is stale.
func Find(items []Item, id string, again bool) (*Item, error) {
	called := func(i Item) bool { return i.ID == id }
	at := slices.IndexFunc(items, called)
	if at >= 0 {
		if other := at + 1 + slices.IndexFunc(items[at+1:], called); other > at {
			return nil, fmt.Errorf("%s: %s of %s/%s and %s of %s/%s have the same id, which does not come about by itself: somebody chose these names. Nothing is decided by it; write what you mean, or look at who asks for both",
				id, items[at].Host, items[at].Namespace, items[at].Workload, items[other].Host, items[other].Namespace, items[other].Workload)
		}
	}
	if at < 0 {
		return nil, fmt.Errorf("%s: nothing with this id waits: its evidence is older than --since, or the configuration in force has a word about it now; see sallyport review list --all", id)
	}
	i := &items[at]
	d := i.Decision
	switch {
	case i.Why == "":
		return nil, fmt.Errorf("%s: it was %s by %s at %s, and waits no more: its evidence is older than --since, or the configuration in force has a word about it now", id, d.Action, d.By, d.At.Format(time.RFC3339))
	case i.State != StateWaiting && !again:
		return nil, fmt.Errorf("%s: it was decided already: %s by %s at %s; --again decides anew", id, d.Action, d.By, d.At.Format(time.RFC3339))
	}
	return i, nil
}
