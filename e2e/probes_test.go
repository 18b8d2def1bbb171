package e2e

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sallyport/sallyport/e2e/story"
)

// probe is what says for how long a container may not answer before it is started again, in Kubernetes' words.
type probe struct {
	Period  int `yaml:"periodSeconds"`
	Timeout int `yaml:"timeoutSeconds"`
	Misses  int `yaml:"failureThreshold"`
}

// patience is for how long a container that hangs may do so.
func (p probe) patience() time.Duration {
	return time.Duration(p.Misses*max(p.Period, p.Timeout)) * time.Second
}

// TestProbesArePatient reads the chart's pods, and those of tests on a Kubernetes: a container is started again because it hangs, and not
// because the machine is busy.
func TestProbesArePatient(t *testing.T) {
	const least = 5 // seconds for an answer
	root, err := story.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"chart/testdata/*.golden.yaml", "e2e/incluster/testdata/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, file := range files {
			for key, p := range probesThatRestart(t, file) {
				found++
				if key.Value == "livenessProbe" && p.Timeout < least {
					t.Errorf("%s:%d: %s waits %d s for an answer; a busy machine may need %d", file, key.Line, key.Value, p.Timeout, least)
				}
				if p.patience() < leastLimit {
					t.Errorf("%s:%d: %s gives up after %s; a busy machine may need %s", file, key.Line, key.Value, p.patience(), leastLimit)
				}
			}
		}
		if found == 0 {
			t.Errorf("there are no probes in %s", pattern)
		}
	}
}

// probesThatRestart are a file's liveness and startup probes, by the keys that name them.
func probesThatRestart(t *testing.T, file string) map[*yaml.Node]probe {
	t.Helper()
	found := map[*yaml.Node]probe{}
	var walk func(*yaml.Node)
	walk = func(n *yaml.Node) {
		for i, child := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 0 && (child.Value == "livenessProbe" || child.Value == "startupProbe") {
				p := probe{Period: 10, Timeout: 1, Misses: 3} // Kubernetes' defaults
				if err := n.Content[i+1].Decode(&p); err != nil {
					t.Fatalf("%s:%d: %v", file, child.Line, err)
				}
				found[child] = p
			}
			walk(child)
		}
	}
	for documents := yaml.NewDecoder(strings.NewReader(read(t, file))); ; {
		var document yaml.Node
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		walk(&document)
	}
}
