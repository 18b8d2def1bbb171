package agent

import (
	"errors"
	"io"
	"log/slog"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/spool"
)

// accessLogs takes Envoy's access logs and puts their records on the spool. The spool neither waits nor grows beyond
// its limit: what it cannot take it tells by a gap record.
type accessLogs struct {
	accesslogv3.UnimplementedAccessLogServiceServer
	log     *slog.Logger
	spool   *spool.Spool
	records func() LogReader
}

// LogReader makes audit records of the messages of one stream of Envoy's access log service, each as it came over the wire (a
// StreamAccessLogsMessage). The message and the records are good until the next call. With an error come those that could be read.
type LogReader interface {
	Records(message string) ([]record.Record, error)
}

// StreamAccessLogs reads until Envoy ends the stream.
func (a *accessLogs) StreamAccessLogs(stream grpc.ClientStreamingServer[accesslogv3.StreamAccessLogsMessage, accesslogv3.StreamAccessLogsResponse]) error {
	reader, failing := a.records(), false
	var message wholeMessage
	for {
		err := stream.RecvMsg(&message)
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&accesslogv3.StreamAccessLogsResponse{})
		}
		if err != nil {
			return err
		}
		records, malformed := reader.Records(message.text())
		if err = a.spool.Append(records...); err != nil && !failing {
			a.log.Error("audit records cannot be kept; the log will show the gap", "err", err)
		}
		failing = err != nil
		if malformed != nil {
			return a.refuse(malformed)
		}
	}
}

// refuse ends a stream on which something else came than log entries.
func (a *accessLogs) refuse(cause error) error {
	a.log.Error("Envoy's access log cannot be read", "err", cause)
	if err := a.spool.AppendGap(1, "a message of Envoy's access log could not be read"); err != nil {
		a.log.Error("a gap in the audit log cannot be noted", "err", err)
	}
	return status.Error(codes.InvalidArgument, cause.Error())
}
