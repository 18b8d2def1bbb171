package digest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// plane is the other end: what there is, by bucket.
type plane struct{ buckets [Buckets][]uint64 }

func (p *plane) change(s *Set, t *testing.T, key Key, add bool) {
	b := &p.buckets[key.Bucket]
	if add {
		*b = append(*b, key.Value)
	} else {
		i := slices.Index(*b, key.Value)
		*b = slices.Delete(*b, i, i+1)
	}
	name := BucketName(key.Bucket)
	if body := Encode(*b); body == nil {
		s.Remove(name)
	} else if err := s.Put(name, body); err != nil {
		t.Fatal(err)
	}
}

func (p *plane) sum() (sum uint64) {
	for i := range p.buckets {
		sum ^= Mark(BucketName(uint16(i)), Encode(p.buckets[i]))
	}
	return sum
}

// TestNeverNoToWhatIsThere: after any changes each domain that is there may be; of those that are not about one in 2^RiceBits seems to; and only who has all
// of it takes it for whole.
func TestNeverNoToWhatIsThere(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	p, s, there := &plane{}, &Set{}, map[string]bool{}
	for range 20_000 {
		domain := fmt.Sprintf("host-%d.test", r.IntN(8000))
		p.change(s, t, KeyOf("443", domain), !there[domain])
		there[domain] = !there[domain]
	}
	if s.Whole() {
		t.Error("it is taken for whole before anybody said what it should be")
	}
	if err := s.Put(SumName, Sum(p.sum())); err != nil || !s.Whole() {
		t.Errorf("it is not taken for whole (%v)", err)
	}
	seems, not := 0, 0
	for i := range 200_000 {
		domain := fmt.Sprintf("host-%d.test", i)
		may := s.May("443", domain)
		if there[domain] && !may {
			t.Fatalf("%s is there", domain)
		}
		if !there[domain] {
			not++
			if may {
				seems++
			}
		}
	}
	if most := 2 * not >> RiceBits; seems > most {
		t.Errorf("%d of %d that are not there seem to be, want %d at most", seems, not, most)
	}
	for domain, is := range there {
		if is {
			p.change(s, t, KeyOf("443", domain), false)
			break
		}
	}
	if s.Whole() {
		t.Error("it is taken for whole without the sum of what changed")
	}
}

func TestSameInAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 50 {
		values := make([]uint64, n)
		for i := range values {
			values[i] = r.Uint64()
		}
		was := Encode(values)
		r.Shuffle(n, func(i, j int) { values[i], values[j] = values[j], values[i] })
		if !bytes.Equal(was, Encode(values)) {
			t.Fatalf("%d values in another order are other bytes", n)
		}
		if size := len(was); n > 0 && size > 2+n*(RiceBits+3)/8+2 {
			t.Errorf("%d values take %d bytes", n, size)
		}
		for _, v := range values {
			if !holds(was, v) {
				t.Fatalf("a value of %d is not found", n)
			}
		}
	}
}

func TestWhatCannotBeReadChangesNothing(t *testing.T) {
	s := &Set{}
	if err := s.Put("0", Encode([]uint64{KeyOf("80", "a.test").Value})); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string][]byte{
		"0": {5, 0}, "1": {0}, "800": Encode([]uint64{1}), "00": Encode([]uint64{1}), "A": Encode([]uint64{1}), "": nil, SumName: {1}, "2": append(Encode([]uint64{1}), 0),
		"3": bytes.Repeat([]byte{0xff}, 20),
	} {
		if s.Put(name, body) == nil {
			t.Errorf("%q of % x was taken", name, body)
		}
	}
	if err := s.Put(SumName, Sum(Mark("0", Encode([]uint64{KeyOf("80", "a.test").Value})))); err != nil || !s.Whole() {
		t.Errorf("it is not what it was (%v)", err)
	}
}

// FuzzBucket: whatever comes as a bucket is refused, or can be asked about anything.
func FuzzBucket(f *testing.F) {
	f.Add([]byte{}, uint64(0))
	f.Add(Encode([]uint64{1, 1 << 40, 1 << 63}), uint64(1<<40))
	f.Fuzz(func(t *testing.T, body []byte, value uint64) {
		s := &Set{}
		if err := s.Put("7", body); err != nil {
			return
		}
		found := 0
		_ = walk(body, func(uint64) bool { found++; return true })
		if found == 0 != (len(body) == 0) {
			t.Errorf("% x has %d values", body, found)
		}
		if len(body) > 0 {
			holds(body, value)
		}
	})
}
