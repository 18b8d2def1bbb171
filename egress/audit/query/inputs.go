package query

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/gob"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/egress/audit/inputs"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// Inputs calls f with the distinct inputs that fit, those of one question one after the other. An input fits if one of its records
// may: its numbers are those of whole days, of UTC, so that Since and Until choose those that were seen in between. From is about
// workloads, not about pods. Rule, WouldDeny, Limit, Terms and Within choose records, and are refused.
func Inputs(ctx context.Context, db *sql.DB, filter Filter, f func(*inputs.Input) error) error {
	if err := filter.forInputs(); err != nil {
		return err
	}
	where, args := filter.fits()
	return store.EachInput(ctx, db, store.InputsFilter{Since: filter.Since, Until: filter.Until, Where: where, Args: args}, f)
}

// forInputs says whether a filter can choose inputs.
func (f Filter) forInputs() error {
	if f.WouldDeny || f.Rule != (Rule{}) || f.Limit != 0 || len(f.Terms) > 0 || len(f.Within) > 0 {
		return errors.New("audit inputs: a policy's rule, what would be denied, a limit, terms, and namespaces to look into choose records, not inputs")
	}
	return nil
}

func (s *Service) answerInputs(stream grpc.ServerStream) error {
	var filter Filter
	if err := receive(stream, &filter); err != nil {
		return err
	}
	if err := filter.forInputs(); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return s.others.answer(stream, func(stream grpc.ServerStream) error {
		sender := inputSender{stream: stream}
		if err := Inputs(stream.Context(), s.store.DB(), filter, sender.add); err != nil {
			return err
		}
		return sender.flush()
	})
}

// inputSender writes inputs to a stream, some in each answer.
type inputSender struct {
	stream grpc.ServerStream
	list   []inputs.Input
	size   int
}

func (s *inputSender) add(x *inputs.Input) error {
	q, o := &x.Question, &x.Outcome
	s.list = append(s.list, *x)
	s.size += 256 + len(q.Labels) + len(q.Host) + len(q.URLPath) + len(q.Method) + len(q.Cut) + len(q.Claim) + len(o.Reason) + len(o.DecidedBy.Rule) + len(o.AllowedBy.Rule) + len(o.WouldDeny.Rule)
	if s.size < answerBytes {
		return nil
	}
	return s.flush()
}

func (s *inputSender) flush() error {
	if len(s.list) == 0 {
		return nil
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(s.list); err != nil {
		return fmt.Errorf("audit inputs: %w", err)
	}
	s.list, s.size = s.list[:0], 0
	return s.stream.SendMsg(wrapperspb.Bytes(b.Bytes()))
}

// eachInput reads an answer.
func eachInput(answer []byte, f func(*inputs.Input) error) error {
	var list []inputs.Input
	if err := gob.NewDecoder(bytes.NewReader(answer)).Decode(&list); err != nil {
		return fmt.Errorf("audit inputs: the answer cannot be read: %w", err)
	}
	for i := range list {
		if err := f(&list[i]); err != nil {
			return err
		}
	}
	return nil
}
