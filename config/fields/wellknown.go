package fields

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// wellKnown gives the Go value of a message that YAML writes as one value.
func wellKnown(m proto.Message) any {
	switch m := m.(type) {
	case *durationpb.Duration:
		return m.AsDuration().String()
	case *wrapperspb.BoolValue:
		return m.Value
	case *wrapperspb.DoubleValue:
		return m.Value
	case *wrapperspb.UInt32Value:
		return m.Value
	case *wrapperspb.Int32Value:
		return m.Value
	case *wrapperspb.Int64Value:
		return m.Value
	default:
		return m
	}
}
