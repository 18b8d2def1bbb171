package interpret

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Unknown is something in a resource, or about a connection, that this package does not know.
type Unknown struct{ What string }

func (u Unknown) Error() string { return "interpret: " + u.What }

// unknown ends the interpretation.
func unknown(format string, args ...any) { panic(Unknown{fmt.Sprintf(format, args...)}) }

// caught turns what unknown said into an error.
func caught(err *error) {
	switch r := recover().(type) {
	case nil:
	case Unknown:
		*err = r
	default:
		panic(r)
	}
}

// unpack reads a typed configuration of the type that is expected there.
func unpack[M proto.Message](where string, a *anypb.Any, into M) M {
	if err := a.UnmarshalTo(into); err != nil {
		unknown("%s: %v", where, err)
	}
	return into
}
