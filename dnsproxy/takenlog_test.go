package dnsproxy

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestTakenAddressesAreLoggedInBounds: of thousands of addresses a line shows a few, of a domain there are a few lines, and other domains have theirs; what is
// not said is counted.
func TestTakenAddressesAreLoggedInBounds(t *testing.T) {
	var out bytes.Buffer
	log := newTakenLog(slog.New(slog.NewTextHandler(&out, nil)))
	many := make([]netip.Addr, 4000)
	for i := range many {
		many[i] = netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
	}
	of := func(host string) Refusal {
		return Refusal{View: "resolver", Host: host, Domain: domainOf(host), Addresses: many}
	}
	for i := range 1000 {
		log.say(of(fmt.Sprintf("n%d.evil.co.uk", i)), 0)
	}
	if lines := strings.Count(out.String(), "\n"); lines != int(takenOfDomain.Burst) || out.Len() > lines*400 || !strings.Contains(out.String(), "more=3996") {
		t.Errorf("%d lines of %d bytes, first %.400s", lines, out.Len(), out.String())
	}
	out.Reset()
	log.say(of("www.good.co.uk"), 0)
	if got := out.String(); !strings.Contains(got, "host=www.good.co.uk") || !strings.Contains(got, "unsaid=995") {
		t.Errorf("another domain's: %s", got)
	}
	out.Reset()
	for i := range 1000 {
		log.say(of(fmt.Sprintf("www.evil%d.test", i)), 0)
	}
	if lines := strings.Count(out.String(), "\n"); lines > int(takenOfAll.Burst) {
		t.Errorf("of many domains %d lines", lines)
	}
	out.Reset()
	log.say(of("www.evil.co.uk"), time.Minute)
	if got := out.String(); strings.Count(got, "\n") != 1 {
		t.Errorf("after a minute: %s", got)
	}
}

// TestTakenAddressesAreLogged: an answer without public addresses is a line of the log.
func TestTakenAddressesAreLogged(t *testing.T) {
	var out bytes.Buffer
	newTakenLog(slog.New(slog.NewTextHandler(&out, nil))).say(Refusal{View: "resolver", Host: "in.test", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}, 0)
	if got := out.String(); !strings.Contains(got, "host=in.test addresses=[10.0.0.1]") || strings.Contains(got, "more=") || strings.Contains(got, "unsaid=") {
		t.Error(got)
	}
}
