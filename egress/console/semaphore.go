package console

import (
	"context"

	lru "github.com/hashicorp/golang-lru/v2"
)

// semaphore are places that have to be taken, and given back.
type semaphore chan struct{}

// wait takes a place in each of several, in this order, and gives them back when it is done.
func wait(ctx context.Context, of ...semaphore) (done func(), err error) {
	taken := 0
	done = func() {
		for _, t := range of[:taken] {
			<-t
		}
	}
	for _, t := range of {
		select {
		case t <- struct{}{}:
			taken++
		case <-ctx.Done():
			done()
			return nil, ctx.Err()
		}
	}
	return done, nil
}

// turnsEach are so many places for each reader who logged in.
type turnsEach struct {
	most int
	of   *lru.Cache[string, semaphore]
}

func newTurnsEach(most int) turnsEach {
	of, err := lru.New[string, semaphore](mostReaders)
	if err != nil {
		panic(err) // the size is a constant
	}
	return turnsEach{most, of}
}

// reader gives those of who asks.
func (t turnsEach) reader(ctx context.Context) semaphore {
	fresh, name := make(semaphore, t.most), readerOf(ctx).Name
	if name == "" { // nobody logs in
		return fresh
	}
	if known, there, _ := t.of.PeekOrAdd(name, fresh); there {
		return known
	}
	return fresh
}
