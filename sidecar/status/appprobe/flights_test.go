package appprobe

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"
)

// TestFlightsOutliveWhoBeganThem: a stranger who asks and leaves takes nobody's answer away, and what nobody waits for ends.
func TestFlightsOutliveWhoBeganThem(t *testing.T) {
	f := flights{of: map[string]*flight{}}
	stranger, leaves := context.WithCancel(t.Context())
	asked, answer, over := make(chan context.Context), make(chan struct{}), make(chan error)
	go func() {
		_, _, err := f.do(stranger, "/livez", time.Hour, func(ctx context.Context) (int, error) {
			asked <- ctx
			<-answer
			return http.StatusOK, ctx.Err()
		})
		over <- err
	}()
	under := <-asked
	of, began := f.join("/livez", time.Hour)
	if began {
		t.Error("the kubelet does not share what is under way")
	}
	leaves()
	close(answer)
	<-of.done
	if <-over; of.status != http.StatusOK || of.err != nil {
		t.Errorf("the kubelet hears %d, %v", of.status, of.err)
	}
	f.leave("/livez", of)
	if len(f.of) != 0 || under.Err() == nil {
		t.Errorf("%d flights are left, and the one that is over has %v", len(f.of), under.Err())
	}

	alone, leaves := context.WithCancel(t.Context())
	leaves()
	_, _, err := f.do(alone, "/livez", time.Hour, func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || len(f.of) != 0 {
		t.Errorf("what nobody waits for: %v, %d flights", err, len(f.of))
	}
}

// TestFlightsThatFailWereBegunBefore: what began before a kubelet asked and failed had less time than it gives.
func TestFlightsThatFailWereBegunBefore(t *testing.T) {
	h := &handler{flights: flights{of: map[string]*flight{}}}
	of, _ := h.flights.join("/livez", time.Hour)
	defer h.flights.leave("/livez", of)
	asked := 0
	answers := make(chan int)
	go func() {
		status, err := h.fly(t.Context(), "/livez", time.Hour, func(context.Context) (int, error) {
			asked++
			return http.StatusOK, nil
		})
		if err != nil {
			t.Error(err)
		}
		answers <- status
	}()
	of.status, of.err = http.StatusInternalServerError, nil
	h.flights.land("/livez", of)
	if status := <-answers; status != http.StatusOK || asked != 1 {
		t.Errorf("%d, asked %d times", status, asked)
	}
}
