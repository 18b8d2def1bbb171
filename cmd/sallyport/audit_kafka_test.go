package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sallyport/sallyport/e2e/kafka"
)

// kafkaTopic is what came into a topic.
type kafkaTopic struct {
	mu      sync.Mutex
	copies  map[string]int   // by id
	last    map[string]int64 // by key, the highest number
	trouble []string
}

// take notes a message.
func (k *kafkaTopic) take(m *kgo.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var e struct {
		Metadata struct {
			UID      string
			Sequence int64
		}
	}
	if err := json.Unmarshal(m.Value, &e); err != nil {
		k.trouble = append(k.trouble, fmt.Sprintf("%s: %v", m.Value, err))
	}
	k.copies[e.Metadata.UID]++
	if k.copies[e.Metadata.UID] > 1 {
		return
	}
	if k.last[string(m.Key)] > e.Metadata.Sequence {
		k.trouble = append(k.trouble, fmt.Sprintf("of %s comes %d after %d", m.Key, e.Metadata.Sequence, k.last[string(m.Key)]))
	}
	k.last[string(m.Key)] = e.Metadata.Sequence
}

func (k *kafkaTopic) has() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.copies)
}

// TestKafkaTakesAll: Apache Kafka's broker has each record in the end, those of a workload in their order, and none that nobody sent, although the audit
// server and the broker are killed under load, and the broker once does nothing for a while.
func TestKafkaTakesAll(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the real programs: not with -short")
	}
	broker := kafka.Start(t)
	broker.CreateTopic(t, "records", 5)
	topic := &kafkaTopic{copies: map[string]int{}, last: map[string]int64{}}
	broker.Consume(t, "records", topic.take)
	p, dir := auditProgram(t)
	to, data := filepath.Join(dir, "kafka"), filepath.Join(dir, "data")
	roots, err := os.ReadFile(broker.CA)
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{
		filepath.Join(dir, "ca.crt"): string(roots),
		to:                           "tls://" + broker.SASL + "/records\nssl.ca.location: ca.crt\nsasl.mechanism: SCRAM-SHA-512\nsasl.username: " + kafka.User + "\nsasl.password: " + kafka.Password + "\n",
	} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	load := newAuditLoad(t, data)
	more := func(than int) {
		t.Helper()
		upEventually(t, "that something more is in the topic", func() error {
			if n := topic.has(); n <= than {
				return fmt.Errorf("%d as before", n)
			}
			return nil
		})
	}
	for round := range 5 {
		server := p.start(t, "audit", "server", "--data", data, "--console-addr", "", "--detect-every", "0", "--send-records", "kafka="+to)
		before := topic.has()
		for range 5 {
			upEventually(t, "that records are taken", load.deliver)
		}
		more(before)
		switch round {
		case 0, 3: // the broker is killed, and comes back
			broker.Kill(t)
			if err := load.deliver(); err != nil {
				t.Fatal(err)
			}
			broker.Run(t)
		case 1: // it does nothing for a while
			broker.Pause(t)
			for range 10 {
				if err := load.deliver(); err != nil {
					t.Fatal(err)
				}
			}
			broker.Resume(t)
		case 2: // both are killed
			if err := load.deliver(); err != nil {
				t.Fatal(err)
			}
			broker.Kill(t)
		}
		if round == 3 || round == 4 {
			upEventually(t, "that all is in the topic", func() error {
				if n := topic.has(); n < len(load.sent) {
					return fmt.Errorf("%d of %d", n, len(load.sent))
				}
				return nil
			})
		}
		if err := server.end(t, syscall.SIGKILL); err == nil {
			t.Error("it ended by itself")
		}
		if round == 2 {
			broker.Run(t)
		}
	}
	topic.mu.Lock()
	defer topic.mu.Unlock()
	copies := 0
	for id, n := range topic.copies {
		if !load.sent[id] {
			t.Errorf("%s is nobody's", id)
		}
		copies += n - 1
	}
	for i, what := range topic.trouble {
		if i < 10 {
			t.Error(what)
		}
	}
	t.Logf("%d records, %d copies, %d out of order", len(load.sent), copies, len(topic.trouble))
}
