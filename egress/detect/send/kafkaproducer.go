package send

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// producer is a connection to a cluster, for one topic. It is idempotent (a message that it has to send again is there once) and waits for all in-sync
// replicas.
type producer struct {
	client   *kgo.Client
	settings kafkaSettings
	limit    int           // how many bytes a batch may have
	patience time.Duration // how long nothing may be acknowledged
	progress chan struct{} // has one when something was

	mu       sync.Mutex
	messages int // under way
	bytes    int
	err      error // the first message's that failed
	trouble  error // of the last connection that could not be made
}

// How large batches are: at most the least that topics have by default, and no smaller than the client makes them.
const (
	usualBatch = 1_000_000
	leastBatch = 512
)

// newProducer connects, and looks whether the topic is there, and keeps all that it is sent. Batches have at most limit bytes, if that is not 0, and no more
// than the topic takes.
func newProducer(ctx context.Context, s kafkaSettings, limit int, timeout time.Duration) (*producer, error) {
	p := &producer{settings: s, patience: tries * timeout, progress: make(chan struct{}, 1)}
	config, err := s.tls()
	if err != nil {
		return nil, err
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(s.brokers, ",")...), kgo.ClientID("sallyport"), kgo.SoftwareNameAndVersion("sallyport", "1"), kgo.DisableClientMetrics(),
		kgo.WithHooks(p), kgo.DialTimeout(timeout / 2), kgo.RequestTimeoutOverhead(timeout), kgo.ProduceRequestTimeout(timeout), kgo.RetryTimeout(timeout), kgo.MetadataMinAge(time.Second),
	}
	if config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	if mechanism := s.sasl(); mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	if p.limit, err = p.look(ctx, options, 2*timeout); err != nil {
		return nil, err
	}
	if limit > 0 {
		p.limit = min(p.limit, limit)
	}
	p.client, err = kgo.NewClient(append(options,
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerBatchCompression(kgo.ZstdCompression(), kgo.NoCompression()), kgo.ProducerBatchMaxBytes(int32(max(p.limit, leastBatch))),
		kgo.MaxBufferedRecords(1<<30), // wait bounds what is under way
	)...)
	return p, err
}

// look asks the cluster about the topic, and gives how many bytes one of its batches may have.
func (p *producer) look(ctx context.Context, options []kgo.Opt, within time.Duration) (int, error) {
	client, err := kgo.NewClient(options...)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.AllowAutoTopicCreation = false
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &p.settings.topic
	metadata.Topics = append(metadata.Topics, topic)
	told, err := metadata.RequestWith(ctx, client)
	if err != nil {
		return 0, p.because(err)
	}
	for _, t := range told.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return 0, fmt.Errorf("topic %s: %w", p.settings.topic, err)
		}
	}
	return p.keeps(ctx, client)
}

// keeps refuses a topic that does not keep what it is sent, and gives how many bytes one of its batches may have. Who may not ask for a topic's settings
// is told nothing.
func (p *producer) keeps(ctx context.Context, client *kgo.Client) (int, error) {
	request, topic := kmsg.NewPtrDescribeConfigsRequest(), kmsg.NewDescribeConfigsRequestResource()
	topic.ResourceType, topic.ResourceName, topic.ConfigNames = kmsg.ConfigResourceTypeTopic, p.settings.topic, []string{"cleanup.policy", "max.message.bytes"}
	request.Resources = append(request.Resources, topic)
	told, err := request.RequestWith(ctx, client)
	if err != nil {
		return 0, p.because(err)
	}
	limit := usualBatch
	for _, r := range told.Resources {
		for _, c := range r.Configs {
			value := ""
			if c.Value != nil {
				value = *c.Value
			}
			switch n, err := strconv.Atoi(value); {
			case c.Name == "cleanup.policy" && strings.Contains(value, "compact"):
				return 0, fmt.Errorf("topic %s has cleanup.policy %s, by which it would lose all messages of a workload but the last: set it to delete, or take another topic", p.settings.topic, value)
			case c.Name == "max.message.bytes" && err == nil:
				limit = min(limit, n)
			}
		}
	}
	return limit, nil
}

// send hands a message to the client, which is to have room for it (wait).
func (p *producer) send(m *kgo.Record) {
	m.Topic = p.settings.topic
	size := len(m.Key) + len(m.Value)
	p.mu.Lock()
	p.messages, p.bytes = p.messages+1, p.bytes+size
	p.mu.Unlock()
	p.client.Produce(context.Background(), m, func(_ *kgo.Record, err error) {
		p.mu.Lock()
		p.messages, p.bytes, p.err = p.messages-1, p.bytes-size, cmp.Or(p.err, err)
		p.mu.Unlock()
		select {
		case p.progress <- struct{}{}:
		default:
		}
	})
}

// underWay is how many messages were sent and not acknowledged.
func (p *producer) underWay() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.messages
}

// wait waits until no more than some bytes are under way, as long as something is acknowledged now and then.
func (p *producer) wait(ctx context.Context, most int) error {
	stalled := time.NewTimer(p.patience)
	defer stalled.Stop()
	for {
		p.mu.Lock()
		bytes, err := p.bytes, p.err
		p.mu.Unlock()
		if err != nil || bytes <= most {
			return err
		}
		select {
		case <-p.progress:
			stalled.Reset(p.patience)
		case <-stalled.C:
			return p.because(fmt.Errorf("no broker acknowledged anything for %s; %d messages are sent again", p.patience, p.underWay()))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// because adds why no connection could be made, if that is so.
func (p *producer) because(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trouble == nil || errors.Is(err, p.trouble) {
		return err
	}
	return fmt.Errorf("%w: %w", err, p.trouble)
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (p *producer) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble = err
}
