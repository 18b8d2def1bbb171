package workload

import (
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/xds/identity"
)

// Refused says that a proxy claims to be what its caller has not proved.
type Refused struct {
	Caller identity.ID
	Node   string // the node id
	Reason string
}

func refuse(caller identity.ID, node Node, format string, args ...any) error {
	return &Refused{Caller: caller, Node: node.ID, Reason: fmt.Sprintf(format, args...)}
}

func (e *Refused) Error() string {
	return fmt.Sprintf("%s may not be the node %q: %s", e.Caller, e.Node, e.Reason)
}

// GRPCStatus makes gRPC answer PermissionDenied.
func (e *Refused) GRPCStatus() *status.Status { return status.New(codes.PermissionDenied, e.Error()) }

// Unknown says that there is no such pod, or that the controller has not heard all of it yet.
type Unknown struct {
	Namespace, Name string
	what            string
}

func (e *Unknown) Error() string {
	return fmt.Sprintf("the pod %s/%s %s, try again", e.Namespace, e.Name, e.what)
}

// GRPCStatus makes gRPC answer Unavailable, so that agents try again.
func (e *Unknown) GRPCStatus() *status.Status { return status.New(codes.Unavailable, e.Error()) }
