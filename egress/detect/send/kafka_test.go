package send

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sallyport/sallyport/e2e/freeport"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// cluster is one of a single broker, which speaks Kafka's protocol; the real one is in cmd/sallyport.
func cluster(t *testing.T, options ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(3, "records")}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// topicOf is a receiver at a broker, with further lines in its file.
func topicOf(t *testing.T, scheme string, c *kfake.Cluster, lines ...string) (*Records, string) {
	t.Helper()
	file := target(t, append([]string{scheme + "://" + c.ListenAddrs()[0] + "/records"}, lines...)...)
	r := receiverOf(t, "kafka="+file, options())
	t.Cleanup(r.Close)
	return r, file
}

// sendAll sends and settles.
func sendAll(ctx context.Context, r *Records, records []record.Record) error {
	return errors.Join(r.Send(ctx, records), r.Settle(ctx))
}

// consume reads so many messages.
func consume(t *testing.T, n int, options ...kgo.Opt) (all []*kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.ConsumeTopics("records"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(all) < n {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%d of %d messages: %v", len(all), n, err)
		}
		all = append(all, fetches.Records()...)
	}
	return all
}

func header(m *kgo.Record, name string) string {
	for _, h := range m.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// TestKafka: each record is a message with its id, and those of a workload are in one partition, in their order.
func TestKafka(t *testing.T) {
	c := cluster(t)
	r, _ := topicOf(t, "tcp", c)
	var records []record.Record
	for i := range 300 {
		one := someRecords()[i%2]
		one.Seq = uint64(i)
		if i%10 != 0 {
			one.Workload.Principal = fmt.Sprintf("spiffe://mesh/ns/shop/sa/%d", i%7)
		}
		records = append(records, one)
	}
	if err := sendAll(t.Context(), r, records); err != nil || r.Waits() {
		t.Fatal(err, r.Waits())
	}
	last, partition := map[string]int{}, map[string]int32{}
	seen := map[string]bool{}
	for _, m := range consume(t, len(records), kgo.SeedBrokers(c.ListenAddrs()...)) {
		key, id := string(m.Key), ids(t, m.Value)
		var seq int
		if _, err := fmt.Sscanf(id, "p/1/%d", &seq); err != nil || header(m, "uid") != id || header(m, "content-type") != "application/json" {
			t.Fatalf("%s with headers %v: %v", id, m.Headers, err)
		}
		if key == "p" != (seq%10 == 0) {
			t.Errorf("%d has the key %s", seq, key)
		}
		if class := header(m, "class_uid"); class != []string{"4002", "4001"}[seq%2] {
			t.Errorf("%d is of class %s", seq, class)
		}
		if was, known := partition[key]; known && (was != m.Partition || last[key] > seq) {
			t.Errorf("%s in partition %d after %d, %d after %d", key, m.Partition, was, seq, last[key])
		}
		if m.Timestamp.Before(time.Now().Add(-time.Hour)) {
			t.Errorf("the time is the record's: %s", m.Timestamp)
		}
		partition[key], last[key], seen[id] = m.Partition, seq, true
	}
	if len(seen) != len(records) {
		t.Errorf("%d different ids", len(seen))
	}
}

// TestKafkaSaysWhoItIs: brokers that want TLS, the client's certificate, a password.
func TestKafkaSaysWhoItIs(t *testing.T) {
	t.Parallel()                                         // it waits for limits
	web := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate, which is its own root
	web.Close()
	pair := web.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	broker := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	mutual := broker.Clone()
	mutual.ClientAuth, mutual.ClientCAs = tls.RequireAnyClientCert, roots
	files := func(t *testing.T, file string) {
		t.Helper()
		for name, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, "tls.key": {Type: "PRIVATE KEY", Bytes: key}} {
			if err := os.WriteFile(filepath.Join(filepath.Dir(file), name), pem.EncodeToMemory(block), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	user := func(mechanism, password string) []string {
		return []string{"ssl.ca.location: tls.crt", "sasl.mechanism: " + mechanism, "sasl.username: sallyport", "sasl.password: " + password}
	}
	for _, c := range []struct {
		name, scheme string
		broker       []kfake.Opt
		lines        []string
		wrong        string
	}{
		{"tls", "tls", []kfake.Opt{kfake.TLS(broker)}, []string{"ssl.ca.location: tls.crt"}, ""},
		{"not trusted", "tls", []kfake.Opt{kfake.TLS(broker)}, nil, "certificate"},
		{"mutual", "tls", []kfake.Opt{kfake.TLS(mutual)}, []string{"ssl.ca.location: tls.crt", "ssl.certificate.location: tls.crt", "ssl.key.location: tls.key"}, ""},
		{"without a certificate", "tls", []kfake.Opt{kfake.TLS(mutual)}, []string{"ssl.ca.location: tls.crt"}, "certificate required"},
		{"plain", "tls", []kfake.Opt{kfake.TLS(broker), kfake.EnableSASL(), kfake.Superuser("PLAIN", "sallyport", "geheim")}, user("PLAIN", "geheim"), ""},
		{"scram 256", "tls", []kfake.Opt{kfake.TLS(broker), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "sallyport", "geheim")}, user("SCRAM-SHA-256", "geheim"), ""},
		{"scram 512", "tcp", []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "sallyport", "geheim")}, user("SCRAM-SHA-512", "geheim")[1:], ""},
		{"wrong password", "tcp", []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "sallyport", "geheim")}, user("SCRAM-SHA-512", "falsch")[1:], "sasl."},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := cluster(t, c.broker...)
			file := target(t, c.scheme+"://"+at.ListenAddrs()[0]+"/records", strings.Join(c.lines, "\n"))
			files(t, file)
			o := options()
			o.Timeout = 4 * time.Second // what is wrong is tried for so long
			if c.wrong == "" {
				o.Timeout = time.Minute
			}
			r := receiverOf(t, "kafka="+file, o)
			defer r.Close()
			err := sendAll(t.Context(), r, someRecords())
			if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong) || strings.Contains(err.Error(), "falsch")) {
				t.Errorf("%v; wanted %q", err, c.wrong)
			}
		})
	}
}

// TestKafkaSettings: what cannot work is said when it is read, without secrets.
func TestKafkaSettings(t *testing.T) {
	for want, lines := range map[string][]string{
		"write it like tls://HOST:9093/TOPIC":     {"https://k.test:9093/records"},
		"names no topic":                          {"tls://k.test:9093"},
		"no HOST:PORT":                            {"tls://k.test/records"},
		"further ones in bootstrap.servers":       {"tls://k.test:9093/records", "bootstrap.servers: other.test"},
		"names a user":                            {"tls://u:geheim@k.test:9093/records"},
		"goes on after the topic":                 {"tls://k.test:9093/records?acks=1"},
		"Acks is no setting":                      {"tls://k.test:9093/records", "acks: 1"},
		"sasl.mechanism is missing":               {"tls://k.test:9093/records", "sasl.username: a", "sasl.password: " + secret},
		"must be one of PLAIN":                    {"tls://k.test:9093/records", "sasl.mechanism: GSSAPI"},
		"needs both":                              {"tls://k.test:9093/records", "sasl.mechanism: PLAIN", "sasl.username: a"},
		"would show the password":                 {"tcp://k.test:9092/records", "sasl.mechanism: PLAIN", "sasl.username: a", "sasl.password: " + secret},
		"ssl.ca.location is for tls:// only":      {"tcp://k.test:9092/records", "ssl.ca.location: ca.crt"},
		"ssl.ca.location: open":                   {"tls://k.test:9093/records", "ssl.ca.location: missing.crt"},
		"ssl.ca.location: the file holds no cert": {"tls://k.test:9093/records", "ssl.ca.location: url"},
		"go together":                             {"tls://k.test:9093/records", "ssl.key.location: url"},
	} {
		_, err := NewRecords("kafka="+target(t, lines...), options())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%v; wanted %q", err, want)
		}
	}
}

// TestKafkaTopics: a topic that is not there, or that keeps the last message of a key only, takes nothing.
func TestKafkaTopics(t *testing.T) {
	c := cluster(t)
	r, file := topicOf(t, "tcp", c)
	set(t, c, "cleanup.policy", "compact,delete")
	if err := sendAll(t.Context(), r, someRecords()); err == nil || !strings.Contains(err.Error(), "cleanup.policy compact,delete") {
		t.Errorf("a topic that is compacted: %v", err)
	}
	set(t, c, "cleanup.policy", "delete")
	if err := os.WriteFile(file, []byte("tcp://"+c.ListenAddrs()[0]+"/missing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sendAll(t.Context(), r, someRecords()); err == nil || !strings.Contains(err.Error(), "create it") {
		t.Errorf("a topic that is not there: %v", err)
	}
	if err := os.WriteFile(file, []byte("tcp://"+c.ListenAddrs()[0]+"/records\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sendAll(t.Context(), r, someRecords()); err != nil {
		t.Errorf("after the file was corrected: %v", err)
	}
}

// set changes a topic's setting.
func set(t *testing.T, c *kfake.Cluster, name, value string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	topic, config := kmsg.NewIncrementalAlterConfigsRequestResource(), kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	topic.ResourceType, topic.ResourceName = kmsg.ConfigResourceTypeTopic, "records"
	config.Name, config.Value = name, &value
	topic.Configs = append(topic.Configs, config)
	request.Resources = append(request.Resources, topic)
	response, err := request.RequestWith(t.Context(), client)
	if err == nil {
		err = kerr.ErrorForCode(response.Resources[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestKafkaLargeRecords: a record that is larger than what a topic takes comes with texts that were cut, or as a gap, and holds up nobody; also where the
// limit shows only by refusals.
func TestKafkaLargeRecords(t *testing.T) {
	for _, told := range []bool{true, false} {
		for limit, whole := range map[string]bool{"3000": true, "1100": false} {
			if !told && !whole { // compressed, more of it fits
				continue
			}
			c := cluster(t)
			set(t, c, "max.message.bytes", limit)
			if !told {
				c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Count: -1, Err: kerr.TopicAuthorizationFailed})
			}
			r, _ := topicOf(t, "tcp", c)
			records := someRecords()
			records[0].URLPath = "/" + noise(5000)
			var err error
			for tries := range 20 {
				if err = sendAll(t.Context(), r, records); err == nil || told && tries > 0 {
					break
				}
			}
			if err != nil {
				t.Errorf("told: %v, %s bytes: %v", told, limit, err)
				continue
			}
			for _, m := range consume(t, 2, kgo.SeedBrokers(c.ListenAddrs()...)) {
				var e struct {
					ClassUID int            `json:"class_uid"`
					Count    uint64         `json:"count"`
					Unmapped map[string]any `json:"unmapped"`
				}
				if err := json.Unmarshal(m.Value, &e); err != nil {
					t.Fatal(err)
				}
				switch id := header(m, "uid"); {
				case id == "p/1/7" && whole && (e.ClassUID != 4002 || e.Unmapped["cut"] != "urlPath"):
					t.Errorf("told: %v, %s bytes: not cut: %s", told, limit, m.Value)
				case id == "p/1/7" && !whole && (e.ClassUID != 0 || e.Count != 1):
					t.Errorf("told: %v, %s bytes: no gap: %s", told, limit, m.Value)
				}
			}
			if n := r.Unfit(); n > 0 == whole || r.Unfit() != 0 {
				t.Errorf("told: %v, %s bytes: %d did not fit", told, limit, n)
			}
		}
	}
}

// noise is a text that does not become shorter by compression.
func noise(n int) string {
	x, out := uint32(1), make([]byte, n)
	for i := range out {
		x = x*1664525 + 1013904223
		out[i] = 'a' + byte(x>>24)%26
	}
	return string(out)
}

// TestKafkaRefusals: what a broker refuses to write is an error with a word about it, and comes again; what it says to try again is tried again.
func TestKafkaRefusals(t *testing.T) {
	c := cluster(t)
	r, _ := topicOf(t, "tcp", c)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.TopicAuthorizationFailed})
	if err := sendAll(t.Context(), r, someRecords()); err == nil || !strings.Contains(err.Error(), "allow the operations") || r.Waits() {
		t.Errorf("not allowed: %v; waits: %v", err, r.Waits())
	}
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Count: 2, Err: kerr.NotLeaderForPartition})
	if err := sendAll(t.Context(), r, someRecords()); err != nil {
		t.Errorf("after its leader changed: %v", err)
	}
	consume(t, 2, kgo.SeedBrokers(c.ListenAddrs()...))
}

// TestKafkaStalls: a broker that answers nothing any more is an error in the end, what is under way is bounded until then, and it all comes again.
func TestKafkaStalls(t *testing.T) {
	t.Parallel() // it waits for limits
	c := cluster(t)
	file := target(t, "tcp://"+c.ListenAddrs()[0]+"/records")
	o := options()
	o.Timeout = 2 * time.Second // what is not held up has to be there before, too
	r := receiverOf(t, "kafka="+file, o)
	defer r.Close()
	if err := sendAll(t.Context(), r, someRecords()); err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		select {
		case <-release:
			return nil, nil, false
		default:
			return nil, errors.New("the connection ends"), true
		}
	})
	large := someRecords()
	for i := range large {
		large[i].URLPath = "/" + noise(6000)
	}
	batch := make([]record.Record, 0, 500)
	for len(batch) < cap(batch) {
		batch = append(batch, large...)
	}
	var err error
	sent := 0
	for ; err == nil && sent < 100; sent++ {
		err = r.Send(t.Context(), batch)
	}
	if err == nil || !strings.Contains(err.Error(), "no broker acknowledged anything") || sent > heldBytes/(250*6000)+2 || r.Waits() {
		t.Errorf("after %d batches: %v; waits: %v", sent, err, r.Waits())
	}
	close(release)
	if err := sendAll(t.Context(), r, someRecords()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	nobody, err := freeport.Addr()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("tcp://"+nobody+"/records\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sendAll(t.Context(), r, someRecords()); err == nil || !strings.Contains(err.Error(), nobody) {
		t.Errorf("nobody listens: %v", err)
	}
}
