package envoylog

import "github.com/sallyport/sallyport/egress/audit/protobuf"

// flagSet has Envoy's response flags by their numbers in envoy.data.accesslog.v3.ResponseFlags.
type flagSet uint32

// flagNames are those that records tell, in Envoy's short form and in the order that they are told in.
var flagNames = [...]struct {
	number uint64
	name   string
}{
	{1, "LH"}, {2, "UH"}, {3, "UT"}, {4, "LR"}, {5, "UR"}, {6, "UF"}, {7, "UC"}, {8, "UO"}, {9, "NR"}, {12, "RL"}, {flagUnauthorized, "UAEX"},
	{15, "DC"}, {16, "URX"}, {17, "SI"}, {19, "DPE"}, {24, "UPE"}, {flagMaxDuration, "UMSDR"}, {25, "NC"}, {26, "OM"}, {27, "DF"}, {28, "DR"},
}

// flagUnauthorized is a message, the others are booleans.
const flagUnauthorized = 13

// flagMaxDuration is of what was ended when the rule did that let it through.
const flagMaxDuration = 20

// read reads ResponseFlags.
func (s *flagSet) read(flags string) error {
	f := protobuf.Scan(flags)
	for f.Next() {
		number := f.Tag >> 3
		bit := flagSet(1) << (number & 31)
		switch {
		case number > 31:
		case f.Tag&7 == protobuf.Varint && number != flagUnauthorized && f.Uint != 0, f.Tag&7 == protobuf.Bytes && number == flagUnauthorized:
			*s |= bit
		case f.Tag&7 == protobuf.Varint && number != flagUnauthorized:
			*s &^= bit
		}
	}
	return f.Err()
}

// names gives the flags in their short form.
func (s flagSet) names() (out []string) {
	if s == 0 {
		return nil
	}
	for _, x := range flagNames {
		if s&(1<<x.number) != 0 {
			out = append(out, x.name)
		}
	}
	return out
}
