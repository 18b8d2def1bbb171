package query

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// turns bounds how many questions of a kind are answered at a time, and for how long nothing may become of one: each has one of the store's few connections,
// which the pages need, too.
type turns struct {
	places chan struct{}
	wait   time.Duration // for a place
	rest   time.Duration // from one message of an answer to the next one: until DuckDB has it, and the reader took it
}

func newTurns(most int) turns {
	return turns{make(chan struct{}, most), time.Minute, 10 * time.Minute}
}

// answer gives work a place, and a stream to answer by.
func (t turns) answer(stream grpc.ServerStream, work func(grpc.ServerStream) error) error {
	waited := time.NewTimer(t.wait)
	defer waited.Stop()
	select {
	case t.places <- struct{}{}:
	case <-waited.C:
		return status.Errorf(codes.ResourceExhausted, "the audit server answers %d such questions at a time, and has been at others for %v: ask again", cap(t.places), t.wait)
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	resting := time.NewTimer(t.rest)
	defer resting.Stop()
	done := make(chan error, 1)
	go func() { // who waits for a reader that takes nothing is freed by the stream's end
		defer func() { <-t.places }()
		done <- work(&paced{stream, ctx, func() { resting.Reset(t.rest) }})
	}()
	select {
	case err := <-done:
		return err
	case <-resting.C:
		return status.Errorf(codes.DeadlineExceeded, "nothing became of the answer for %v: ask for less at a time, and read it as it comes", t.rest)
	case <-stream.Context().Done():
		return <-done
	}
}

// paced is a stream that tells when a message is on its way.
type paced struct {
	grpc.ServerStream
	ctx  context.Context
	sent func()
}

func (p *paced) Context() context.Context { return p.ctx }

func (p *paced) SendMsg(m any) error {
	err := p.ServerStream.SendMsg(m)
	p.sent()
	return err
}
