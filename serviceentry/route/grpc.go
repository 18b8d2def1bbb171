package route

import "slices"

// GRPCCodes are gRPC's statuses, by their numbers: https://github.com/grpc/grpc/blob/master/doc/statuscodes.md
var GRPCCodes = []string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
	"FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// GRPCCode is the number of a status of gRPC.
func GRPCCode(name string) (uint32, bool) {
	i := slices.Index(GRPCCodes, name)
	return uint32(max(i, 0)), i >= 0
}
