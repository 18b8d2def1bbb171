package send

import (
	"context"
	"errors"
	"slices"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// errTooLarge is what a message is that a receiver refuses for its size. How large one may be no receiver by HTTP says before (nginx: 1 MB, unless told otherwise).
var errTooLarge = errors.New("the message is larger than what it takes")

// tookTooLong says whether the other side did not come to an end in the time that it has.
func tookTooLong(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// Send is nil when the other side has taken all of them, or says later, to Settle, whether it did. What is too large for it, or takes it too long, it gets in smaller
// messages, also the next time; they grow again as it takes them.
func (r *Records) Send(ctx context.Context, records []record.Record) error {
	for rest := records; len(rest) > 0; {
		n := len(rest)
		if r.most > 0 {
			n = min(n, r.most)
		}
		r.divides = n > 1
		err := r.send(ctx, rest[:n])
		r.divides = false // what is asked beside is no larger or smaller
		switch {
		case err == nil:
			rest = rest[n:]
			if r.most > 0 && n == r.most {
				r.grow(len(records))
			}
		case ctx.Err() != nil:
			return err
		case n > 1 && errors.Is(err, errTooLarge):
			r.lessen(n)
		case errors.Is(err, errTooLarge):
			if err := r.cut(ctx, &rest[0]); err != nil {
				return err
			}
			rest = rest[1:]
		case n > 1 && tookTooLong(err):
			r.lessen(n)
			return err // others wait for less of it, after a pause
		default:
			return err
		}
	}
	return nil
}

// growAfter is how many messages are taken, one after the other, before a larger one is tried.
const growAfter = 8

// grow has more sent at once now and then; as many as there are in the end.
func (r *Records) grow(all int) {
	if r.inTurn++; r.inTurn < growAfter {
		return
	}
	r.inTurn = 0
	if r.most *= 2; r.most >= all {
		r.most = 0
	}
}

// lessen has half of so many sent at once.
func (r *Records) lessen(of int) { r.most, r.inTurn = of/2, 0 }

// cut sends one record that is too large as it is, with its texts cut; and where that does not help, that it is missing.
func (r *Records) cut(ctx context.Context, of *record.Record) error {
	short := *of
	short.Cut = slices.Clone(of.Cut)
	for most := of.Texts() / 2; most >= leastTexts; most /= 2 {
		short.Shorten(most)
		if err := r.send(ctx, []record.Record{short}); !errors.Is(err, errTooLarge) {
			return err
		}
	}
	err := r.send(ctx, []record.Record{missing(of, "too large for the receiver")})
	if err == nil {
		r.unfit.Add(1)
	}
	return err
}

// missing says, under a record's own id, that it is not to be had.
func missing(r *record.Record, why string) record.Record {
	return record.Record{Proxy: r.Proxy, Epoch: r.Epoch, Seq: r.Seq, Time: r.Time, Class: record.Gap, Count: max(r.Count, 1), Reason: why}
}
