package relay

import (
	"context"
	"log/slog"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// upstream is one stream to the controller, or the attempt to open one.
type upstream struct {
	out    chan *discoveryv3.DeltaDiscoveryRequest
	cancel context.CancelFunc
}

// controllerEvent is what happened on a stream: it opened (no response, no error), a response came, or it ended.
type controllerEvent struct {
	from     *upstream
	response *discoveryv3.DeltaDiscoveryResponse
	err      error
}

// dial begins a stream, unless there is one.
func (l *loop) dial() {
	if l.stream != nil {
		return
	}
	l.retry = nil
	ctx, cancel := context.WithCancel(l.ctx)
	u := &upstream{out: make(chan *discoveryv3.DeltaDiscoveryRequest), cancel: cancel}
	l.stream = u
	l.streams.Go(func() { l.follow(ctx, u) })
}

// follow opens a stream and passes on what comes from it. It ends after the event with the error, or with ctx.
func (l *loop) follow(ctx context.Context, u *upstream) {
	report := func(response *discoveryv3.DeltaDiscoveryResponse, err error) bool {
		select {
		case l.Relay.controller <- controllerEvent{from: u, response: response, err: err}:
			return err == nil
		case <-ctx.Done():
			return false
		}
	}
	stream, err := l.cfg.Controller.DeltaAggregatedResources(ctx)
	if !report(nil, err) {
		return
	}
	l.streams.Go(func() {
		for {
			select {
			case req := <-u.out:
				if stream.Send(req) != nil {
					return // Recv tells why
				}
			case <-ctx.Done():
				return
			}
		}
	})
	for {
		response, err := stream.Recv()
		if !report(response, err) {
			return
		}
	}
}

func (l *loop) controllerSpoke(event controllerEvent) {
	if event.from != l.stream {
		return
	}
	switch {
	case event.err != nil:
		l.hangUp()
		l.machine.controllerGone()
		wait := l.backoff.next()
		level := slog.LevelDebug // the same again is no news
		if text := event.err.Error(); text != l.trouble {
			l.trouble, level = text, slog.LevelWarn
		}
		l.log.Log(l.ctx, level, "no stream to the controller", "err", event.err, "retry_in", wait.Round(time.Millisecond))
		l.retry = time.After(wait)
		l.machine.stopWaiting()
	case event.response == nil:
		l.machine.controllerOpen()
	default:
		if !l.machine.heard {
			l.log.Info("the controller answers", "type", event.response.GetTypeUrl())
			l.backoff.reset()
			l.trouble = ""
		}
		l.machine.controllerResponse(event.response)
	}
}

// hangUp ends the stream, if there is one.
func (l *loop) hangUp() {
	if l.stream != nil {
		l.stream.cancel()
		l.stream = nil
	}
}
