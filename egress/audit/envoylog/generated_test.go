package envoylog

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/xds/wire"
)

// TestReadsWhatGeneratedCodeReads: entries with something in each field are read as Envoy's own description of them says.
func TestReadsWhatGeneratedCodeReads(t *testing.T) {
	for round := range 40 { // lists and maps grow, and of the choices each is taken
		h, c := new(datav3.HTTPAccessLogEntry), new(datav3.TCPAccessLogEntry)
		fill(h.ProtoReflect(), &filler{round: round})
		fill(c.ProtoReflect(), &filler{round: round})
		compareHTTP(t, h)
		compareTCP(t, c)
	}
	for number, name := range corev3.RequestMethod_name {
		if number > 0 && (int(number) >= len(methods) || methods[number] != name) {
			t.Errorf("method %d is %s", number, name)
		}
	}
}

// FuzzEntry: whatever an entry says.
func FuzzEntry(f *testing.F) {
	for round := range 5 {
		h := new(datav3.HTTPAccessLogEntry)
		fill(h.ProtoReflect(), &filler{round: round})
		body, err := proto.MarshalOptions{Deterministic: true}.Marshal(h)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var l logged
		if l.readHTTP(string(body)) == nil {
			_ = l.readTCP(string(body))
		}
		known := proto.UnmarshalOptions{DiscardUnknown: true}
		if h := new(datav3.HTTPAccessLogEntry); known.Unmarshal(body, h) == nil {
			compareHTTP(t, h)
		}
		if c := new(datav3.TCPAccessLogEntry); known.Unmarshal(body, c) == nil {
			compareTCP(t, c)
		}
	})
}

func compareHTTP(t *testing.T, e *datav3.HTTPAccessLogEntry) {
	t.Helper()
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var got logged
	if err := got.readHTTP(string(body)); err != nil {
		t.Fatalf("%v: %v", e, err)
	}
	want := commonOf(e.GetCommonProperties(), wire.RuleFilter)
	req, resp := e.GetRequest(), e.GetResponse()
	want.version, want.method, want.authority, want.path, want.received = uint64(e.GetProtocolVersion()), uint64(req.GetRequestMethod()), req.GetAuthority(), req.GetPath(), req.GetRequestBodyBytes()
	want.status, want.howItWent, want.sent = resp.GetResponseCode().GetValue(), resp.GetResponseCodeDetails(), resp.GetResponseBodyBytes()
	want.metadata = got.metadata // read by what comes of it
	if !reflect.DeepEqual(got, want) {
		t.Errorf("by hand %+v, %+v\ngenerated %+v, %+v\nof %v", got, got.rules, want, want.rules, e)
	}
}

func compareTCP(t *testing.T, e *datav3.TCPAccessLogEntry) {
	t.Helper()
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var got logged
	if err := got.readTCP(string(body)); err != nil {
		t.Fatalf("%v: %v", e, err)
	}
	want := commonOf(e.GetCommonProperties(), wire.AnswerFilter)
	want.received, want.sent = e.GetConnectionProperties().GetReceivedBytes(), e.GetConnectionProperties().GetSentBytes()
	if want.metadata = got.metadata; !want.answerTells() {
		want.rules = nil
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("by hand %+v, %+v\ngenerated %+v, %+v\nof %v", got, got.rules, want, want.rules, e)
	}
}

// commonOf is what generated code reads of what all entries have, and of a filter's metadata.
func commonOf(c *datav3.AccessLogCommon, filter string) logged {
	l := logged{
		intermediate: c.GetIntermediateLogEntry(), begins: c.GetAccessLogType() == datav3.AccessLogType_TcpUpstreamConnected || c.GetAccessLogType() == datav3.AccessLogType_DownstreamTunnelSuccessfullyEstablished,
		sentOn:  c.GetTimeToFirstUpstreamTxByte() != nil,
		seconds: c.GetStartTime().GetSeconds(), nanos: int64(c.GetStartTime().GetNanos()),
		duration: duration(c.GetDuration().GetSeconds(), int64(c.GetDuration().GetNanos())),
		remote:   socketOf(c.GetDownstreamRemoteAddress()), direct: socketOf(c.GetDownstreamDirectRemoteAddress()),
		local: socketOf(c.GetDownstreamLocalAddress()), upstream: socketOf(c.GetUpstreamRemoteAddress()),
		outward: socketOf(c.GetUpstreamLocalAddress()),
		cluster: c.GetUpstreamCluster(), route: c.GetRouteName(), ended: c.GetConnectionTerminationDetails(),
		sni: c.GetTlsProperties().GetTlsSniHostname(),
	}
	for name, value := range c.GetCustomTags() {
		l.tags.set(name, value)
	}
	for key, value := range c.GetMetadata().GetFilterMetadata()[filter].GetFields() {
		l.setRule(key, value.GetStringValue())
	}
	for _, name := range c.GetTlsProperties().GetPeerCertificateProperties().GetSubjectAltName() {
		l.peers++
		l.peer = name.GetUri()
	}
	c.GetResponseFlags().ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Kind() != protoreflect.BoolKind || v.Bool() {
			l.flags |= 1 << f.Number()
		}
		return true
	})
	return l
}

func socketOf(a *corev3.Address) socket {
	s := a.GetSocketAddress()
	return socket{s.GetAddress(), s.GetPortValue()}
}

// filler has another value for each field.
type filler struct{ round, n int }

func (f *filler) next() int { f.n++; return f.n }

// fill sets all fields of a message.
func fill(m protoreflect.Message, with *filler) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if choice := f.ContainingOneof(); choice != nil && choice.Fields().Get(with.round%choice.Fields().Len()) != f {
			continue
		}
		switch {
		case f.IsMap():
			if f.MapValue().Kind() != protoreflect.StringKind {
				continue
			}
			for j, name := range []string{
				wire.TagConfig, wire.TagRole, wire.TagPolicy, wire.TagAuthority, wire.TagPeer, wire.TagSource,
				wire.TagTarget, wire.TagRoute, wire.TagBy, wire.TagRevision, wire.TagRules, "another",
			} {
				value := fmt.Sprint("tag", with.next())
				if (j+with.round)%7 == 0 {
					value = "-"
				}
				m.Mutable(f).Map().Set(protoreflect.ValueOfString(name).MapKey(), protoreflect.ValueOfString(value))
			}
		case f.IsList():
			for range with.round % 4 {
				if f.Kind() == protoreflect.MessageKind {
					fill(m.Mutable(f).List().AppendMutable().Message(), with)
				}
			}
		case f.Kind() == protoreflect.MessageKind:
			switch f.Message().FullName() {
			case "google.protobuf.Any":
			case "envoy.config.core.v3.Metadata":
				with.metadata(m.Mutable(f).Message().Interface().(*corev3.Metadata))
			default:
				fill(m.Mutable(f).Message(), with)
			}
		default:
			m.Set(f, with.scalar(f))
		}
	}
}

// metadata is of filters that tell of policies, and of one that does not.
func (f *filler) metadata(m *corev3.Metadata) {
	m.FilterMetadata = map[string]*structpb.Struct{}
	for _, filter := range []string{wire.RuleFilter, wire.AnswerFilter, "another"} {
		said := map[string]*structpb.Value{}
		for i, key := range []string{
			wire.StatRoot + wire.EnforcedRule, wire.StatOwn + wire.EnforcedRule, wire.StatRoot + wire.ShadowRule, wire.StatOwn + wire.ShadowRule,
			wire.AnswerDenied, wire.AnswerRules, "another",
		} {
			switch (i + f.round) % 5 {
			case 0: // not there
			case 1:
				said[key] = structpb.NewNumberValue(float64(f.next()))
			default:
				said[key] = structpb.NewStringValue(fmt.Sprint("rule", f.next()))
			}
		}
		m.FilterMetadata[filter] = &structpb.Struct{Fields: said}
	}
}

// scalar is a value of a field that holds one.
func (f *filler) scalar(field protoreflect.FieldDescriptor) protoreflect.Value {
	n := f.next()
	big := uint64(n) << (7 * (n % 4))
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(fmt.Sprintf("ü%d", n))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool((n+f.round)%3 > 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(f.round))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(n) * (1 - 2*int32(f.round%2)))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(n) * (1 - 2*int64(f.round%2)))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(big))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(big << 20)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(n))
	default:
		panic(field.Kind())
	}
}

// TestDuration: what is longer than a time.Duration can be is cut, and does not turn around.
func TestDuration(t *testing.T) {
	if d := duration(1<<62, 5); d < 290*365*24*time.Hour {
		t.Errorf("%v", d)
	}
	if d := duration(-1<<62, -5); d > -290*365*24*time.Hour {
		t.Errorf("%v", d)
	}
	if d := duration(1, 5); d != time.Second+5 {
		t.Errorf("%v", d)
	}
}
