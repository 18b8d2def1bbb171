package v1alpha1

import "google.golang.org/protobuf/encoding/protojson"

// UnmarshalJSON reads what users write.
func (p *EgressPolicy) UnmarshalJSON(b []byte) error { return protojson.Unmarshal(b, p) }

// MarshalJSON writes it as users do.
func (p *EgressPolicy) MarshalJSON() ([]byte, error) { return protojson.Marshal(p) }
