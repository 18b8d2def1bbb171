package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
)

// namesOfGateway is how many names one gateway is promised to hold, each with a certificate and a route, and memoryOfName what one may take of its Envoy, in bytes.
const (
	namesOfGateway = 10_000
	memoryOfName   = 40 << 10
)

// TestIngressMemoryOfNames: what a name with a server, a Secret and a VirtualService of its own takes of the gateway's Envoy, by its allocator, once all of them have been used. With
// SALLYPORT_LONG=1 there are as many as are promised.
func TestIngressMemoryOfNames(t *testing.T) {
	needRoot(t)
	count := 400
	if longRun() {
		count = namesOfGateway
	}
	in := newIngress(t)
	in.addNames(t, "few", 0, 64) // more than have chains of their own
	for i := range 64 {
		in.isShown(t, nameOf(i), nil)
	}
	before := in.allocated(t)
	began := time.Now()
	const each = 100
	for first := 64; first < 64+count; first += each {
		in.addNames(t, fmt.Sprintf("many-%d", first), first, each)
	}
	for i := range count {
		in.isShown(t, nameOf(64+i), nil)
	}
	for _, i := range []int{64, 64 + count/2, 63 + count} {
		in.servesPage(t, nameOf(i))
	}
	after := in.allocated(t)
	each1 := (after - before) / int64(count)
	t.Logf("%d names: %d bytes each (%d before, %d after), %v", count, each1, before, after, time.Since(began).Round(time.Second))
	most := int64(memoryOfName)
	if !longRun() { // what few names have together counts for more then
		most *= 2
	}
	if each1 > most {
		t.Errorf("a name takes %d bytes of Envoy, more than %d", each1, most)
	}
}

func nameOf(i int) string { return fmt.Sprintf("n%d.many.test", i) }

// addNames adds names, each with a server, a Secret and a VirtualService, in one file.
func (in *ingressScene) addNames(t *testing.T, file string, first, count int) {
	t.Helper()
	var servers, beside strings.Builder
	for i := first; i < first+count; i++ {
		c, err := in.ca.Renew(nameOf(i))
		if err != nil {
			t.Fatal(err)
		}
		secret := "name-" + strconv.Itoa(i)
		fmt.Fprintf(&servers, "  - {port: {number: 443, name: https-%d, protocol: HTTPS}, hosts: [%q], tls: {mode: SIMPLE, credentialName: %s}}\n", i, nameOf(i), secret)
		fmt.Fprintf(&beside, "---\n%s---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: %s, namespace: shop}\nspec: {hosts: [%q], gateways: [%s], http: [{route: [{destination: {host: web, port: {number: 80}, subset: v1}}]}]}\n",
			secretOf(secret, c, nil), secret, nameOf(i), file)
	}
	text := "apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: " + file + ", namespace: shop}\nspec:\n  selector: {istio: ingressgateway}\n  servers:\n" + servers.String() + beside.String()
	if err := in.scene.Config.Write(file+".yaml", text); err != nil {
		t.Fatal(err)
	}
}

// allocated is what the gateway's Envoy has allocated, once it changes by little: the least of some.
func (in *ingressScene) allocated(t *testing.T) (least int64) {
	t.Helper()
	last := int64(0)
	err := world.Within(t.Context(), time.Minute, func() error {
		text, err := in.gateway.Admin(t.Context(), "/memory")
		if err != nil {
			return err
		}
		var said struct{ Allocated string }
		if err := json.Unmarshal(text, &said); err != nil {
			return err
		}
		now, err := strconv.ParseInt(said.Allocated, 10, 64)
		if err != nil {
			return err
		}
		was := last
		if last = now; was == 0 || now < was-1<<16 || now > was+1<<16 {
			return errors.New("it changes still")
		}
		least = min(was, now)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return least
}
