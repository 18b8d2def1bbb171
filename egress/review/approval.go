package review

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sallyport/sallyport/egress/seen"
	"github.com/sallyport/sallyport/egress/suggest"
)

// Approval makes the objects that let an item through, and writes them. The error says why there are none.
func Approval(inForce suggest.Config, log *seen.Log, i *Item, now time.Time) ([]suggest.Change, []byte, error) {
	r := suggest.Suggest(inForce, log, suggest.Options{
		Now: now, Denied: true, Policies: true, Added: true, Paths: true, Limit: 1,
		Only: func(flow *seen.Flow) bool {
			return flow.Namespace == i.Namespace && flow.Account == i.Workload && flow.Host == i.Host && flow.Port == i.Port
		},
	})
	if len(r.Changes) == 0 {
		why := "nothing is to be written for it"
		for _, left := range r.LeftOut {
			if left.Workload == i.Namespace+"/"+i.Workload && left.Host == i.Host && left.Port == i.Port {
				why = left.Why
			}
		}
		return nil, nil, fmt.Errorf("%s: %s:%d cannot be approved by this: %s", i.ID, i.Host, i.Port, why)
	}
	r.LeftOut, r.Notes, r.NotTold = nil, nil, 0 // they are about others
	var text bytes.Buffer
	err := r.WriteYAML(&text)
	return r.Changes, text.Bytes(), err
}

// Digest tells changes apart by what they write, and by what was there when they were made: 32 hexadecimal digits. What is approved is what was shown.
func Digest(changes []suggest.Change) (string, error) {
	sum := sha256.New()
	for i := range changes {
		c, was := &changes[i], ""
		if c.Before != nil {
			was = c.Before.Revision
		}
		var becomes []byte
		if c.After != nil {
			manifest, err := suggest.Manifest(c.After)
			if err != nil {
				return "", err
			}
			if becomes, err = json.Marshal(manifest); err != nil { // its keys are in order
				return "", fmt.Errorf("%s: %w", c.Key(), err)
			}
		}
		fmt.Fprintf(sum, "%q %q %q\n", c.Key(), was, becomes)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16]), nil
}

// Word is the decision that somebody takes about an item.
func (i *Item) Word(action, by, reason string, now, until time.Time) Decision {
	return Decision{
		ID: i.ID, Action: action, At: now.UTC().Truncate(time.Second), By: by, Reason: reason, Until: until,
		Namespace: i.Namespace, Workload: i.Workload, Host: i.Host, Port: i.Port, Last: i.Last, Records: i.Records,
	}
}
