package agent

import (
	"errors"
	"io"
	"log/slog"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"google.golang.org/grpc"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/spool"
)

// accessLogs takes Envoy's access logs and puts their records on the spool. The spool neither waits nor grows beyond
// its limit: what it cannot take it tells by a gap record.
type accessLogs struct {
	accesslogv3.UnimplementedAccessLogServiceServer
	log     *slog.Logger
	spool   *spool.Spool
	records func(*accesslogv3.StreamAccessLogsMessage) []record.Record
}

// StreamAccessLogs reads until Envoy ends the stream. Only its first message says who sends it, so the identifier is
// carried on to the others.
func (a *accessLogs) StreamAccessLogs(stream grpc.ClientStreamingServer[accesslogv3.StreamAccessLogsMessage, accesslogv3.StreamAccessLogsResponse]) error {
	var from *accesslogv3.StreamAccessLogsMessage_Identifier
	failing := false
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&accesslogv3.StreamAccessLogsResponse{})
		}
		if err != nil {
			return err
		}
		if message.GetIdentifier() != nil {
			from = message.GetIdentifier()
		}
		message.Identifier = from
		for _, r := range a.records(message) {
			if err = a.spool.Append(r); err != nil {
				break
			}
		}
		if err != nil && !failing {
			a.log.Error("audit records cannot be kept; the log will show the gap", "err", err)
		}
		failing = err != nil
	}
}
