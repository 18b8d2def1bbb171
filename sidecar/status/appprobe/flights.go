package appprobe

import (
	"context"
	"errors"
	"sync"
	"time"
)

// flights let all who ask for a probe while it is performed have its one answer: who asks without end has it performed once at a time, and takes nobody's turn.
type flights struct {
	mu sync.Mutex
	of map[string]*flight // by path
}

// flight is a probe under way.
type flight struct {
	ctx  context.Context // until its time is over, or nobody waits any more
	end  context.CancelFunc
	wait int           // how many wait; flights' lock guards it
	done chan struct{} // closed when there is an answer

	status int
	err    error
}

var errUnfinished = errors.New("the probe was not finished")

// do gives the answer of a path's flight, which it begins where none is under way. It is the flight's, not the asker's, who may leave (ctx): the others
// still have it. began says whether it began here.
func (f *flights) do(ctx context.Context, path string, within time.Duration, perform func(context.Context) (int, error)) (status int, began bool, err error) {
	of, began := f.join(path, within)
	leave := sync.OnceFunc(func() { f.leave(path, of) })
	defer leave()
	defer context.AfterFunc(ctx, leave)()
	if began {
		func() {
			defer f.land(path, of)
			of.status, of.err = perform(of.ctx)
		}()
	}
	select {
	case <-of.done:
		return of.status, began, of.err
	case <-ctx.Done():
		return 0, began, ctx.Err()
	}
}

// join gives the flight under way, or a new one, which the caller has to land.
func (f *flights) join(path string, within time.Duration) (of *flight, began bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of = f.of[path]
	if of == nil {
		of, began = &flight{done: make(chan struct{}), err: errUnfinished}, true
		of.ctx, of.end = context.WithTimeout(context.Background(), within)
		f.of[path] = of
	}
	of.wait++
	return of, began
}

// leave ends a flight that nobody waits for.
func (f *flights) leave(path string, of *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if of.wait--; of.wait == 0 {
		of.end()
		f.forget(path, of)
	}
}

// land gives the answer to who waits. Who asks from now on begins anew.
func (f *flights) land(path string, of *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(path, of)
	close(of.done)
}

func (f *flights) forget(path string, of *flight) {
	if f.of[path] == of {
		delete(f.of, path)
	}
}
