package send

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// kafkaTopic is a topic of a Kafka cluster. Each record is a message: its value is the event, its key whom the record is of, so that a partition has all of a
// workload's in the order in which they came in (docs/adr/0117-kafka.md).
//
// Messages are under way when send comes back, heldBytes of them at most, and settle waits until all in-sync replicas have them. Whatever fails takes the
// connection with it, and what was under way: it is sent again, by a connection made by what the files say then.
type kafkaTopic struct {
	*to
	producer *producer      // nil where there is no connection
	limit    int            // how many bytes a batch may have, as far as refusals told; 0 where nothing was refused
	unfit    *atomic.Uint64 // messages that only say that a record did not fit
}

// heldBytes is how much may be under way when more is sent; a batch of a sink comes on top.
const heldBytes = 16 << 20

func newKafkaTopic(t *to, unfit *atomic.Uint64) (*kafkaTopic, error) {
	k := &kafkaTopic{to: t, unfit: unfit}
	_, err := k.settings()
	return k, err
}

// send hands records to the producer, when it has room for them.
func (k *kafkaTopic) send(ctx context.Context, records []record.Record) error {
	if err := k.connect(ctx); err != nil {
		return k.fail(err)
	}
	if err := k.producer.wait(ctx, heldBytes); err != nil {
		return k.fail(err)
	}
	for i := range records {
		m, whole, err := message(&records[i], k.producer.limit)
		if err != nil {
			return k.fail(err)
		}
		if !whole {
			k.unfit.Add(1)
		}
		k.producer.send(m)
	}
	return nil
}

// waits says whether anything is under way.
func (k *kafkaTopic) waits() bool { return k.producer != nil && k.producer.underWay() > 0 }

// settle waits until everything is taken.
func (k *kafkaTopic) settle(ctx context.Context) error {
	if k.producer == nil {
		return nil
	}
	if err := k.producer.wait(ctx, 0); err != nil {
		return k.fail(err)
	}
	return nil
}

// connect makes a connection where there is none, and another one where the files say something else than they did.
func (k *kafkaTopic) connect(ctx context.Context) error {
	s, err := k.settings()
	if err != nil {
		return err
	}
	if k.producer != nil {
		if k.producer.settings == s {
			return nil
		}
		if err := k.producer.wait(ctx, 0); err != nil {
			return err
		}
		k.close()
	}
	k.producer, err = newProducer(ctx, s, k.limit, k.options.Timeout)
	return err
}

// close ends the connection; what is under way is nobody's then.
func (k *kafkaTopic) close() {
	if k.producer != nil {
		k.producer.client.Close()
		k.producer = nil
	}
}

// fail ends the connection after an error, and says what can be done about it.
func (k *kafkaTopic) fail(err error) error {
	if errors.Is(err, kerr.MessageTooLarge) && k.producer != nil {
		k.limit = max(k.producer.limit/2, leastBatch)
	}
	k.close()
	text := strings.TrimPrefix(err.Error(), k.kind+": ")
	if len(text) > 500 {
		text = strings.ToValidUTF8(text[:500], "") + "…"
	}
	if hint := kafkaHint(err); hint != "" {
		text += ": " + hint
	}
	return fmt.Errorf("%s: %s", k.Name(), text)
}

// kafkaHint is what to do about what brokers say.
func kafkaHint(err error) string {
	for _, known := range []struct {
		is   error
		hint string
	}{
		{kerr.UnknownTopicOrPartition, "the topic that the URL ends in is not there, or may not be seen: create it, since nothing here does, and allow the operations Describe and Write on it"},
		{kerr.TopicAuthorizationFailed, "allow the operations Describe and Write on the topic"},
		{kerr.ClusterAuthorizationFailed, "brokers before 3.0 ask for the operation IdempotentWrite on the cluster"},
		{kerr.SaslAuthenticationFailed, "look at sasl.username and sasl.password"},
		{kerr.UnsupportedSaslMechanism, "look at sasl.mechanism"},
		{kerr.MessageTooLarge, "smaller batches are tried; the topic's max.message.bytes says how large they may be"},
		{io.EOF, "the broker ended the connection: look at the URL's scheme (tls or tcp), at its port, and at the settings that begin with sasl."},
		{kerr.NotEnoughReplicas, "fewer brokers have the topic's partitions than its min.insync.replicas wants"},
	} {
		if errors.Is(err, known.is) {
			return known.hint
		}
	}
	return ""
}
