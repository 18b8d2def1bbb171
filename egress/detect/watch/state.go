package watch

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sallyport/sallyport/egress/audit/durable"
	"github.com/sallyport/sallyport/egress/detect"
)

// Bounds of the state.
const (
	maxEntries    = 10_000 // of one sink
	maxStateBytes = 64 << 20
)

// state is what was sent, by sink and by the finding's ID.
type state struct {
	file string
	mu   sync.Mutex
	sent map[string]map[string]entry
}

// entry is when a finding was sent, how far it went then, and whose it is.
type entry struct {
	Sent      time.Time `json:"sent"`
	Last      time.Time `json:"last"`
	Namespace string    `json:"namespace,omitempty"`
}

// load reads the file. One that is not there is empty, and so is one that cannot be read, which is said.
func load(file string) (*state, error) {
	s := &state{file: file, sent: map[string]map[string]entry{}}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	} else if err != nil {
		return s, err
	}
	defer f.Close()
	read := map[string]map[string]entry{}
	if err := json.NewDecoder(io.LimitReader(f, maxStateBytes)).Decode(&read); err != nil {
		return s, fmt.Errorf("%s: %w", file, err)
	}
	for sink, entries := range read {
		if entries != nil {
			s.sent[sink] = entries
		}
	}
	return s, nil
}

// due says whether a finding has to be sent: it was not yet; or it was so long ago, and went on since.
func (s *state) due(sink string, f *detect.Finding, now time.Time, repeat time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.sent[sink][f.ID]
	return !known || f.Last.After(was.Last) && now.Sub(was.Sent) >= repeat
}

// keep notes what was sent; nil means that it is on disk. It is known in any case.
func (s *state) keep(sink string, findings []detect.Finding, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := s.sent[sink]
	if entries == nil {
		entries = map[string]entry{}
		s.sent[sink] = entries
	}
	for i := range findings {
		entries[findings[i].ID] = entry{now.UTC(), findings[i].Last, findings[i].Namespace}
	}
	crowd(entries)
	return s.write()
}

// crowd brings what is known of a sink to its bound: the oldest go, of the namespace that has most. So nobody's findings make those of
// others be sent again.
func crowd(entries map[string]entry) {
	of := map[string][]string{}
	for id, e := range entries {
		of[e.Namespace] = append(of[e.Namespace], id)
	}
	for _, ids := range of {
		slices.SortFunc(ids, func(a, b string) int { return cmp.Or(entries[b].Sent.Compare(entries[a].Sent), cmp.Compare(a, b)) })
	}
	for len(entries) > maxEntries {
		most := ""
		for ns, ids := range of {
			if len(ids) > len(of[most]) || len(ids) == len(of[most]) && ns < most {
				most = ns
			}
		}
		last := len(of[most]) - 1
		delete(entries, of[most][last])
		of[most] = of[most][:last]
	}
}

// forget drops what was sent before a time and is found no more.
func (s *state) forget(before time.Time, found []detect.Finding) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	still := map[string]bool{}
	for i := range found {
		still[found[i].ID] = true
	}
	dropped := false
	for sink, entries := range s.sent {
		n := len(entries)
		maps.DeleteFunc(entries, func(id string, e entry) bool { return !still[id] && e.Sent.Before(before) })
		dropped = dropped || len(entries) < n
		if len(entries) == 0 {
			delete(s.sent, sink)
		}
	}
	if !dropped {
		return nil
	}
	return s.write()
}

// write replaces the file, so that it is whole whatever happens.
func (s *state) write() error {
	text, err := json.Marshal(s.sent)
	if err != nil {
		return err
	}
	return durable.Replace(s.file, text)
}
