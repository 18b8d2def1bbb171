package send

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/log"
	sdk "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/egress/detect"
)

// otlp sends a log record a finding by OTLP over HTTP; its URL is the whole one, such as http://collector:4318/v1/logs.
type otlp struct{ *to }

// Send implements Sink.
func (o otlp) Send(ctx context.Context, findings []detect.Finding) error {
	refused, err := o.export(ctx, o.records(ctx, len(findings), func(i int) log.Record { return o.record(&findings[i]) }))
	if err == nil && refused > 0 {
		err = fmt.Errorf("%s: it refused %d of %d findings", o.Name(), refused, len(findings))
	}
	return err
}

// export sends log records. refused is how many of them the other side will never take, as it says; the others it has.
func (o otlp) export(ctx context.Context, records []sdk.Record) (refused uint64, err error) {
	a, err := o.read()
	if err != nil {
		return 0, err
	}
	client, err := o.client()
	if err != nil {
		return 0, err
	}
	said := &answers{next: client.Transport}
	listening := *client
	listening.Transport = said
	exporter, err := otlploghttp.New(ctx, otlploghttp.WithEndpointURL(a.String()), otlploghttp.WithHeaders(a.headers), otlploghttp.WithHTTPClient(&listening),
		otlploghttp.WithRetry(otlploghttp.RetryConfig{}))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", o.Name(), a.secretive(err))
	}
	defer func() { err = errors.Join(err, exporter.Shutdown(context.WithoutCancel(ctx))) }()
	err = o.again(ctx, func() error {
		said.judged, said.refused = nil, 0
		err := exporter.Export(ctx, records)
		switch broken := (*url.Error)(nil); {
		case err == nil:
			return nil
		case said.judged != nil:
			return said.judged
		case errors.As(err, &broken): // no answer
			o.closeIdle()
		}
		return a.secretive(err)
	})
	return min(said.refused, uint64(len(records))), err
}

// answers looks at what a receiver answers before the exporter does, to which all that it does not take is one error.
type answers struct {
	next    http.RoundTripper
	judged  error  // what the last answer's status means
	refused uint64 // of a message that was taken in part: how many records are not to be sent again
}

// RoundTrip implements http.RoundTripper.
func (s *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := s.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if s.judged = judge(response); s.judged != nil {
		return response, nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	response.Body = http.NoBody
	var said collogs.ExportLogsServiceResponse
	if proto.Unmarshal(body, &said) == nil { // what is none says nothing, and the status that all was taken
		s.refused = uint64(max(said.GetPartialSuccess().GetRejectedLogRecords(), 0))
	}
	return response, nil
}

// records makes log records: the SDK makes none but by a logger.
func (o otlp) records(ctx context.Context, n int, record func(i int) log.Record) []sdk.Record {
	all := &collector{}
	provider := sdk.NewLoggerProvider(sdk.WithProcessor(all), sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", "sallyport"))))
	logger := provider.Logger("github.com/sallyport/sallyport/egress/detect")
	for i := range n {
		logger.Emit(ctx, record(i))
	}
	return all.records
}

// otlpSeverities are OpenTelemetry's, by ours.
var otlpSeverities = map[detect.Severity]log.Severity{
	detect.Informational: log.SeverityInfo, detect.Low: log.SeverityInfo2, detect.Medium: log.SeverityWarn, detect.High: log.SeverityError, detect.Critical: log.SeverityFatal,
}

func (o otlp) record(f *detect.Finding) (r log.Record) {
	evidence, _ := json.Marshal(f.Evidence) // of what a SELECT gives
	r.SetTimestamp(f.Last)
	r.SetObservedTimestamp(o.options.Now())
	r.SetSeverity(otlpSeverities[f.Severity])
	r.SetSeverityText(f.Severity.String())
	r.SetEventName("sallyport.finding")
	r.SetBody(attribute.StringValue(f.Sentence()))
	r.AddAttributes(
		attribute.String("sallyport.finding.id", f.ID), attribute.String("sallyport.detection", f.Detection), attribute.String("sallyport.namespace", f.Namespace),
		attribute.String("sallyport.workload", f.Workload), attribute.String("server.address", f.Host), attribute.Int("server.port", int(f.Port)),
		attribute.Int64("sallyport.count", int64(f.Count)), attribute.Float64("sallyport.score", f.Score), attribute.String("sallyport.evidence", string(evidence)),
	)
	return r
}

// collector is a processor that keeps what is emitted.
type collector struct{ records []sdk.Record }

// Enabled implements sdk.Processor.
func (c *collector) Enabled(context.Context, sdk.EnabledParameters) bool { return true }

// OnEmit implements sdk.Processor.
func (c *collector) OnEmit(_ context.Context, r *sdk.Record) error {
	c.records = append(c.records, r.Clone())
	return nil
}

// Shutdown implements sdk.Processor.
func (c *collector) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdk.Processor.
func (c *collector) ForceFlush(context.Context) error { return nil }
