package send

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sallyport/sallyport/e2e/kafka"
)

// TestKafkasOwnBroker: Apache Kafka's broker takes records from whoever shows what it asks for, and what it refuses is said. That nothing is lost when
// either is killed is TestKafkaTakesAll's, in cmd/sallyport.
func TestKafkasOwnBroker(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a broker: not with -short")
	}
	b := kafka.Start(t)
	b.CreateTopic(t, "records", 3)
	b.CreateTopic(t, "small", 1, "max.message.bytes", "3000")
	b.CreateTopic(t, "compacted", 1, "cleanup.policy", "compact")
	roots := "ssl.ca.location: " + b.CA
	user := func(mechanism, password string) []string {
		return []string{roots, "sasl.mechanism: " + mechanism, "sasl.username: " + kafka.User, "sasl.password: " + password}
	}
	for i, c := range []struct {
		url   string
		lines []string
		wrong string
	}{
		{"tcp://" + b.Plain + "/records", nil, ""},
		{"tls://" + b.SASL + "/records", user("PLAIN", kafka.Password), ""},
		{"tls://" + b.SASL + "/records", user("SCRAM-SHA-256", kafka.Password), ""},
		{"tls://" + b.SASL + "/records", user("SCRAM-SHA-512", kafka.Password), ""},
		{"tls://" + b.Mutual + "/records", []string{roots, "ssl.certificate.location: " + b.Certificate, "ssl.key.location: " + b.Key}, ""},
		{"tcp://" + b.Plain + "/small", nil, ""},
		{"tls://" + b.SASL + "/records", user("SCRAM-SHA-512", "falsch"), "look at sasl.username and sasl.password"},
		{"tls://" + b.SASL + "/records", user("PLAIN", "falsch"), "look at sasl.username and sasl.password"},
		{"tls://" + b.SASL + "/records", user("PLAIN", kafka.Password)[1:], "certificate"},
		{"tls://" + b.SASL + "/records", []string{roots}, "look at"},
		{"tcp://" + b.SASL + "/records", nil, "tls endpoint"},
		{"tls://" + b.Mutual + "/records", []string{roots}, "certificate"},
		{"tcp://" + b.Plain + "/missing", nil, "create it"},
		{"tcp://" + b.Plain + "/compacted", nil, "cleanup.policy compact"},
	} {
		r := receiverOf(t, "kafka="+target(t, append([]string{c.url}, c.lines...)...), options())
		records := someRecords()
		records[0].URLPath = "/" + noise(5000)
		for j := range records {
			records[j].Proxy = fmt.Sprintf("p%d", i)
		}
		err := sendAll(t.Context(), r, records)
		r.Close()
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong) || strings.Contains(err.Error(), "falsch")) {
			t.Errorf("%s %q: %v; wanted %q", c.url, c.lines, err, c.wrong)
		}
	}
	for topic, n := range map[string]int{"records": 10, "small": 2} {
		for _, m := range consume(t, n, kgo.SeedBrokers(b.Plain), kgo.ConsumeTopics(topic)) {
			if id := ids(t, m.Value); id != header(m, "uid") || topic == "small" && len(m.Value) > 3000 {
				t.Errorf("%s in %s: %d bytes", id, topic, len(m.Value))
			}
		}
	}
}
