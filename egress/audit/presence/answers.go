package presence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// answersName is another service than Service's: who may tell and who may ask are not the same.
const answersName = "sallyport.audit.v1.Connected"

var list = grpc.StreamDesc{StreamName: "List", ServerStreams: true, Handler: func(s any, stream grpc.ServerStream) error { return s.(answerer).answer(stream) }}

type answerer interface {
	answer(stream grpc.ServerStream) error
}

var answersDesc = grpc.ServiceDesc{ServiceName: answersName, HandlerType: (*answerer)(nil), Streams: []grpc.StreamDesc{list}, Metadata: "sallyport/audit/v1"}

// Answers tells who asks which proxies are connected.
type Answers struct{ register *Register }

// NewAnswers makes the service of a register.
func NewAnswers(r *Register) *Answers { return &Answers{r} }

// Register offers the service on a gRPC server.
func (a *Answers) Register(to grpc.ServiceRegistrar) { to.RegisterService(&answersDesc, a) }

// answer sends the list in parts, or nothing where no controller has told lately.
func (a *Answers) answer(stream grpc.ServerStream) error {
	if err := stream.RecvMsg(&wrapperspb.BytesValue{}); err != nil {
		return err
	}
	proxies, some := a.register.Connected()
	for first := some; first || len(proxies) > 0; first = false {
		n := min(len(proxies), perMessage)
		raw, err := json.Marshal(message{Proxies: proxies[:n]})
		if err != nil {
			return err
		}
		if err := stream.SendMsg(wrapperspb.Bytes(raw)); err != nil {
			return err
		}
		proxies = proxies[n:]
	}
	return nil
}

// Ask asks an audit server which proxies are connected; some is false where no controller has told it lately. The error of a server that does not know the question
// has gRPC's code Unimplemented.
func Ask(ctx context.Context, conn grpc.ClientConnInterface) (proxies []Proxy, some bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := conn.NewStream(ctx, &list, "/"+answersName+"/List")
	if err == nil {
		err = errors.Join(stream.SendMsg(wrapperspb.Bytes(nil)), stream.CloseSend())
	}
	if err != nil {
		return nil, false, fmt.Errorf("audit presence: %w", err)
	}
	for {
		var answer wrapperspb.BytesValue
		err := stream.RecvMsg(&answer)
		if errors.Is(err, io.EOF) {
			return proxies, some, nil
		}
		var m message
		if err == nil {
			err = json.Unmarshal(answer.Value, &m)
		}
		if err != nil {
			return nil, false, fmt.Errorf("audit presence: %w", err)
		}
		proxies, some = append(proxies, m.Proxies...), true
	}
}
