// Package kafka runs Apache Kafka's own broker for tests: a cluster of one, at an address of the loopback that nobody else has.
package kafka

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sallyport/sallyport/e2e/tools"
)

// The listeners' names and ports. A broker listens on an address of its own, so that they are free.
const (
	controllerPort = "19093"
	plainPort      = "19092"
	saslPort       = "19094"
	mutualPort     = "19095"
)

// Who may log in where SASL is asked for.
const (
	User     = "sallyport"
	Password = "geheim-0815"
)

// Broker is one, with all that it keeps in a folder.
type Broker struct {
	Plain  string // HOST:PORT that takes whoever comes
	SASL   string // that takes User and Password by TLS: PLAIN and both SCRAMs
	Mutual string // that takes who shows a certificate of its authority's, by TLS
	// Files, PEM: its authority, and a client's certificate and key.
	CA, Certificate, Key string

	dir, libs string
	cmd       *exec.Cmd
	output    bytes.Buffer
}

// Start starts a broker that ends with the test, which is skipped where there is none to start.
func Start(t testing.TB) *Broker {
	t.Helper()
	libs, err := tools.Cached("kafka", "libs")
	if err != nil {
		t.Skip(err)
	}
	host := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
	b := &Broker{Plain: host + ":" + plainPort, SASL: host + ":" + saslPort, Mutual: host + ":" + mutualPort, dir: t.TempDir(), libs: libs}
	if err := b.identities(host); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.file("properties"), []byte(b.properties(host)), 0o600); err != nil {
		t.Fatal(err)
	}
	format := b.java(t.Context(), "kafka.tools.StorageTool", "format", "--standalone", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", b.file("properties"),
		"--add-scram", "SCRAM-SHA-256=[name="+User+",password="+Password+"]", "--add-scram", "SCRAM-SHA-512=[name="+User+",password="+Password+"]")
	if out, err := format.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() {
		b.Kill(t)
		if t.Failed() {
			t.Logf("the broker: %s", b.output.Bytes())
		}
	})
	b.Run(t)
	return b
}

func (b *Broker) file(name string) string { return filepath.Join(b.dir, name) }

func (b *Broker) java(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "java", append([]string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(b.libs, "*")}, args...)...)
	cmd.Dir = b.dir
	return cmd
}

// properties are the broker's settings.
func (b *Broker) properties(host string) string {
	secure := func(listener string) string {
		return fmt.Sprintf("listener.name.%[1]s.ssl.keystore.type=PEM\nlistener.name.%[1]s.ssl.keystore.location=%[2]s\nlistener.name.%[1]s.ssl.truststore.type=PEM\nlistener.name.%[1]s.ssl.truststore.location=%[3]s\n",
			listener, b.file("broker.pem"), b.CA)
	}
	return strings.Join([]string{
		"process.roles=broker,controller", "node.id=1", "controller.listener.names=CONTROLLER", "controller.quorum.bootstrap.servers=" + host + ":" + controllerPort,
		"listeners=CONTROLLER://" + host + ":" + controllerPort + ",PLAIN://" + b.Plain + ",SASL://" + b.SASL + ",MUTUAL://" + b.Mutual,
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAIN:PLAINTEXT,SASL:SASL_SSL,MUTUAL:SSL", "inter.broker.listener.name=PLAIN",
		"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"listener.name.sasl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"listener.name.sasl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_" + User + "=\"" + Password + "\";",
		secure("sasl"), secure("mutual"), "listener.name.mutual.ssl.client.auth=required", "log.dirs=" + b.file("data"), "auto.create.topics.enable=false",
		"broker.session.timeout.ms=1500", "broker.heartbeat.interval.ms=200", // so that it may soon come again after it was killed
		"offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1", "",
	}, "\n")
}

// Run starts it, again after Kill, and waits until it answers.
func (b *Broker) Run(t testing.TB) {
	t.Helper()
	b.cmd = b.java(context.Background(), "kafka.Kafka", b.file("properties"))
	b.cmd.Stdout, b.cmd.Stderr = &b.output, &b.output
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for over := time.Now().Add(2 * time.Minute); b.ping(t) != nil; {
		if time.Now().After(over) {
			t.Fatalf("the broker does not answer: %s", b.output.Bytes())
		}
	}
}

// ping asks for an answer within a second; a client of its own, since those that failed wait longer and longer.
func (b *Broker) ping(t testing.TB) error {
	client := b.client(t, kgo.RetryTimeout(time.Second))
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	return client.Ping(ctx)
}

// Kill ends it at once (-9).
func (b *Broker) Kill(t testing.TB) {
	t.Helper()
	if b.cmd == nil || b.cmd.ProcessState != nil {
		return
	}
	b.signal(t, syscall.SIGKILL)
	_ = b.cmd.Wait() // it was killed
}

// Pause lets it do nothing more, with its connections open; Resume lets it go on.
func (b *Broker) Pause(t testing.TB) { t.Helper(); b.signal(t, syscall.SIGSTOP) }

// Resume ends a Pause.
func (b *Broker) Resume(t testing.TB) { t.Helper(); b.signal(t, syscall.SIGCONT) }

func (b *Broker) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := b.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func (b *Broker) client(t testing.TB, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Plain)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// CreateTopic makes a topic with settings, NAME, VALUE, ….
func (b *Broker) CreateTopic(t testing.TB, name string, partitions int, settings ...string) {
	t.Helper()
	client := b.client(t)
	defer client.Close()
	request, topic := kmsg.NewPtrCreateTopicsRequest(), kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, int32(partitions), 1
	for i := 0; i < len(settings); i += 2 {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = settings[i], &settings[i+1]
		topic.Configs = append(topic.Configs, config)
	}
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(t.Context(), client)
	if err == nil {
		err = kerr.ErrorForCode(response.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Consume gives each message of a topic to a function, from the first on, until the test ends.
func (b *Broker) Consume(t testing.TB, topic string, each func(*kgo.Record)) {
	t.Helper()
	client := b.client(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-done
		client.Close()
	})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			client.PollFetches(ctx).EachRecord(each)
		}
	}()
}
