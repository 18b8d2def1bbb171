package query

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// reader is a stream whose reader takes nothing until it is told to.
type reader struct {
	grpc.ServerStream
	ctx   context.Context
	takes chan struct{}
}

func (r *reader) Context() context.Context { return r.ctx }

func (r *reader) SendMsg(any) error {
	<-r.takes
	return nil
}

// TestTurns: as many questions are answered at a time as there are places; who comes then is told so, and a reader who takes nothing gives its place back.
func TestTurns(t *testing.T) {
	const never = time.Hour
	turns := turns{make(chan struct{}, 1), time.Millisecond, never}
	idle := &reader{ctx: t.Context(), takes: make(chan struct{})}
	began, first := make(chan struct{}), make(chan error, 1)
	go func() {
		first <- turns.answer(idle, func(s grpc.ServerStream) error { close(began); return s.SendMsg(nil) })
	}()
	<-began
	if err := turns.answer(idle, func(grpc.ServerStream) error { t.Error("it was answered"); return nil }); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a second one: %v", err)
	}
	close(idle.takes)
	if err := <-first; err != nil {
		t.Error(err)
	}

	turns.wait, turns.rest = never, time.Millisecond
	idle = &reader{ctx: t.Context(), takes: make(chan struct{})}
	broken := make(chan struct{})
	err := turns.answer(idle, func(s grpc.ServerStream) error {
		go func() { <-s.Context().Done(); close(broken) }()
		return s.SendMsg(nil)
	})
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("who takes nothing: %v", err)
	}
	<-broken
	close(idle.takes) // what the stream's end does
	turns.rest = never
	if err := turns.answer(idle, func(grpc.ServerStream) error { return nil }); err != nil {
		t.Errorf("the next one: %v", err)
	}
}
