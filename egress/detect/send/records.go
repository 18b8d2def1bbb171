package send

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/cenkalti/backoff/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"

	"github.com/sallyport/sallyport/egress/audit/ocsf"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// RecordKinds are the kinds of receivers of records.
var RecordKinds = []string{"ocsf", "splunk", "otlp", "syslog", "kafka"}

// Records is a receiver of records, each of which it gets as an OCSF event; metadata.uid tells copies apart.
type Records struct {
	*to
	send  func(context.Context, []record.Record) error
	later later // of a receiver that may say later that it has taken what it was sent; nil of others
	unfit atomic.Uint64
	close func()

	most   int // how many are sent at once; 0 is as many as there are
	inTurn int // messages of so many that were taken since it changed
}

// later is a receiver that may say later that it has taken what it was sent: settle is nil when it has taken all of it, and waits says whether it would wait.
type later interface {
	waits() bool
	settle(context.Context) error
}

// NewRecords makes the receiver of KIND=FILE: ocsf takes a JSON array of events, splunk is Splunk's HTTP Event Collector (its URL ends in
// services/collector/event), otlp takes log records whose body is the event, syslog messages by TLS or TCP, kafka is a topic.
func NewRecords(target string, o Options) (*Records, error) {
	t, err := newTo(target, RecordKinds, o)
	if err != nil {
		return nil, err
	}
	t.keeps = true
	r := &Records{to: t, close: t.closeIdle}
	switch t.kind {
	case "splunk":
		c, err := newEventCollector(t)
		if err != nil {
			return nil, err
		}
		r.send, r.later = c.send, c
	case "kafka":
		k, err := newKafkaTopic(t, &r.unfit)
		if err != nil {
			return nil, err
		}
		r.send, r.later, r.close = k.send, k, k.close
	case "otlp":
		r.send = r.otlp
	case "syslog":
		if a, err := t.read(); err != nil {
			return nil, err
		} else if a.Scheme == "udp" {
			return nil, fmt.Errorf("syslog: %s: records go by tls:// or tcp://: nobody knows what becomes of a datagram", t.file)
		}
		r.send = r.syslog
	default:
		r.send = r.ocsf
	}
	return r, nil
}

// Waits says whether something was sent that the other side has not said yet to have taken.
func (r *Records) Waits() bool { return r.later != nil && r.later.waits() }

// Settle is nil when the other side has taken all that was sent since it was called last. Otherwise it all has to be sent again.
func (r *Records) Settle(ctx context.Context) error {
	if r.later == nil {
		return nil
	}
	return r.later.settle(ctx)
}

// Unfit is how many records the other side will never have, since it was called last: larger than what it takes, and told as missing, or refused for good.
func (r *Records) Unfit() uint64 { return r.unfit.Swap(0) }

// Close ends connections. What was sent and not settled has to be sent again.
func (r *Records) Close() { r.close() }

func (r *Records) ocsf(ctx context.Context, records []record.Record) error {
	events := make([]ocsf.Event, len(records))
	for i := range records {
		events[i] = ocsf.FromRecord(records[i])
	}
	return r.post(ctx, "", events)
}

func (r *Records) otlp(ctx context.Context, records []record.Record) error {
	o := otlp{r.to}
	refused, err := o.export(ctx, o.records(ctx, len(records), func(i int) (out log.Record) {
		e := ocsf.FromRecord(records[i])
		body, _ := json.Marshal(e) // of plain values
		out.SetTimestamp(records[i].Time)
		out.SetObservedTimestamp(r.options.Now())
		out.SetSeverity(log.SeverityInfo)
		if records[i].Verdict == record.Denied || records[i].Class == record.Gap {
			out.SetSeverity(log.SeverityWarn)
		}
		out.SetEventName("sallyport.record")
		out.SetBody(attribute.StringValue(string(body)))
		out.AddAttributes(attribute.String("log.record.uid", e.Metadata.UID), attribute.String("sallyport.verdict", string(records[i].Verdict)), attribute.String("server.address", records[i].Host))
		return out
	}))
	r.unfit.Add(refused)
	return err
}

func (r *Records) syslog(ctx context.Context, records []record.Record) error {
	s := syslog{r.to}
	return s.over(ctx, func(conn net.Conn, _ string) error {
		for i := range records {
			body, err := json.Marshal(ocsf.FromRecord(records[i]))
			if err != nil {
				return backoff.Permanent(err)
			}
			message := framed(6, records[i].Time, "record", body)
			if _, err := fmt.Fprintf(conn, "%d %s", len(message), message); err != nil {
				return err
			}
		}
		return ended(conn, r.options.Timeout)
	})
}
