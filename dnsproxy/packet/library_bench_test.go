package packet

import (
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// question is what a stub resolver asks, with EDNS0.
func question(b *testing.B) []byte {
	b.Helper()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("api.Some.example.com."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
		Additionals: []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName("."), Type: dnsmessage.TypeOPT, Class: 1232}, Body: &dnsmessage.OPTResource{},
		}},
	}
	msg, err := m.Pack()
	if err != nil {
		b.Fatal(err)
	}
	return msg
}

// BenchmarkParse reads a question, by this package and by the library beside it (docs/adr/0024-the-wire-by-hand.md).
func BenchmarkParse(b *testing.B) {
	msg := question(b)
	b.Run("here", func(b *testing.B) {
		b.ReportAllocs()
		var q Query
		for b.Loop() {
			if err := q.Parse(msg); err != nil {
				b.Fatal(err)
			}
			_ = q.Key(0)
		}
	})
	b.Run("dnsmessage", func(b *testing.B) {
		b.ReportAllocs()
		var key []byte
		for b.Loop() {
			var p dnsmessage.Parser
			h, err := p.Start(msg)
			if err != nil {
				b.Fatal(err)
			}
			q, err := p.Question()
			if err != nil {
				b.Fatal(err)
			}
			key = append(key[:0], byte(q.Type>>8), byte(q.Type))
			for _, c := range q.Name.Data[:q.Name.Length] {
				if 'A' <= c && c <= 'Z' {
					c += 'a' - 'A'
				}
				key = append(key, c)
			}
			_ = h
			for _, skip := range []func() error{p.SkipAllQuestions, p.SkipAllAnswers, p.SkipAllAuthorities} {
				if err := skip(); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := p.AllAdditionals(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
