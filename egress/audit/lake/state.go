package lake

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sallyport/sallyport/egress/audit/durable"
	"github.com/sallyport/sallyport/egress/audit/lake/content"
)

// stateFile, in the store's folder, has who the writer is and what it is about to do.
const stateFile = "lake.json"

// state is what a writer has on its own disk. What it has done is in the lake.
type state struct {
	Writer string `json:"writer"` // made at random with the store, so that no two of them have the same
	Plan   *plan  `json:"plan,omitempty"`
}

// plan is a step that is not known to be in the lake's log yet.
type plan struct {
	Number          int       `json:"number"`
	Time            time.Time `json:"time"`
	Region, Cluster string
	From            time.Time      `json:"from"` // the records that came in after it
	Until           time.Time      `json:"until"`
	Days            []string       `json:"days,omitempty"`
	Inputs          []content.File `json:"inputs,omitempty"` // or the files that become one
}

// name is that of the plan's file in a partition.
func (p *plan) name(writer, partition string) string {
	return fmt.Sprintf("%s/%s-%012d.parquet", partition, writer, p.Number)
}

// partition is where a day's records are.
func (p *plan) partition(day string) string {
	return fmt.Sprintf("region=%s/cluster=%s/day=%s", p.Region, p.Cluster, day)
}

func loadState(dir string) (*state, error) {
	s := &state{}
	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err == nil {
		if err := json.Unmarshal(data, s); err != nil || len(s.Writer) != 16 {
			return nil, fmt.Errorf("%s: it is not what this program writes: %w", filepath.Join(dir, stateFile), err)
		}
		return s, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	id := make([]byte, 8)
	_, _ = rand.Read(id) // never fails
	s.Writer = hex.EncodeToString(id)
	return s, s.save(dir)
}

func (s *state) save(dir string) error { return writeJSON(filepath.Join(dir, stateFile), s) }

// writeJSON replaces a file so that it is the old one or the new one whenever the machine stops.
func writeJSON(file string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return durable.Replace(file, append(data, '\n'))
}
