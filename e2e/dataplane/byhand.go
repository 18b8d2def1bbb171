package main

import (
	"context"
	"crypto/tls"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"github.com/sallyport/sallyport/e2e/outside"
	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

//go:embed static/*.yaml
var files embed.FS

var templates = template.Must(template.ParseFS(files, "static/*.yaml"))

// written is what the static files leave open.
type written struct {
	Host, Server, Gateway string
	PodHost, Pod          string // what others come to, as they know it, and where it is
	PodPort               int
	Dir                   string // of the certificates
	Peer                  string // SPIFFE id of the other side
	Log                   bool   // an access log of Istio's default fields, into a file
	Indent                string
}

// byHand sets the static side: the same hosts in another world. The certificates are those of the mesh, so that both
// sides pay the same for cryptography.
func byHand(ctx context.Context, run *world.Run, ours *programmed, self string, log bool) (*side, error) {
	scene := ours.scene
	w, err := world.New(run)
	if err != nil {
		return nil, err
	}
	s := &side{name: "written by hand", world: w, self: self}
	ca, err := outside.NewCA()
	if err != nil {
		return nil, err
	}
	leaf, err := s.serve(run, ca)
	if err != nil {
		return nil, err
	}
	pod, err := w.AddPod("measured-1", podAddr)
	if err != nil {
		return nil, err
	}
	door, err := w.AddPod("ingress-1", ingressAddr)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.serveApp(pod, podAddr), ports(ctx, door)); err != nil {
		return nil, err
	}
	for _, h := range []*world.Host{w.App, pod} {
		_, err = h.Run(ctx, 0, scene.Programs.Agent, "init",
			"-p", "15001", "-z", "15006", "-u", fmt.Sprint(world.ProxyUID), "-m", "REDIRECT", "-i", "*", "-x", "", "-b", "*", "-d", "15090,15020")
		if err != nil {
			return nil, err
		}
	}
	shown, err := ca.Issue(ingressHost)
	if err != nil {
		return nil, err
	}
	s.setEnds(serverAddr.String(), leaf, shown.Certificate[0])
	base := written{
		Host: host, Server: serverAddr.String(), Gateway: world.GatewayAddr.String(), Log: log,
		PodHost: podHost, Pod: podAddr.String(), PodPort: podPort,
	}
	running := map[*world.Host]int{}
	for _, one := range []struct {
		pod    *story.Pod
		at     *world.Host
		file   string
		peer   string
		indent string
	}{
		{scene.App, w.App, "sidecar.yaml", "spiffe://cluster.local/ns/istio-system/sa/istio-egressgateway-service-account", "          "},
		{scene.Gateway, w.Gateway, "gateway.yaml", "spiffe://cluster.local/ns/default/sa/app", "            "},
		{ours.pod, pod, "pod.yaml", "", ""},
		{ours.gateway, door, "ingress.yaml", "spiffe://cluster.local/ns/default/sa/measured", ""},
	} {
		values := base
		values.Peer, values.Indent = one.peer, one.indent
		if values.Dir, err = run.MkdirOwned(one.at.Name, world.ProxyUID); err != nil {
			return nil, err
		}
		if err := copyIdentity(one.pod, values.Dir, ca.PEM()); err != nil {
			return nil, err
		}
		if one.at == door {
			if err := certificateFor(values.Dir, shown); err != nil {
				return nil, err
			}
		}
		if running[one.at], err = startEnvoy(ctx, one.at, scene.Programs.Envoy, one.file, values); err != nil {
			return nil, err
		}
	}
	s.ends[egress].envoys = [2]int{running[w.App], running[w.Gateway]}
	s.ends[mesh].envoys = [2]int{running[w.App], running[pod]}
	s.ends[ingress].envoys = [2]int{running[door], running[pod]}
	return s, s.place()
}

// certificateFor puts the certificate that the ingress gateway shows beside its own one.
func certificateFor(dir string, shown *tls.Certificate) error {
	chain, key, err := inPEM(shown)
	return errors.Join(err, owned(filepath.Join(dir, "shown.pem"), chain), owned(filepath.Join(dir, "shown.key"), key))
}

func copyIdentity(pod *story.Pod, dir string, outsideCA []byte) error {
	errs := []error{owned(filepath.Join(dir, "outside-ca.pem"), outsideCA)}
	for _, name := range []string{"cert-chain.pem", "key.pem", "root-cert.pem"} {
		content, err := os.ReadFile(filepath.Join(pod.RunDir(), "state", "identity", name))
		errs = append(errs, err, owned(filepath.Join(dir, name), content))
	}
	return errors.Join(errs...)
}

// owned writes a file of the proxy's user.
func owned(file string, content []byte) error {
	return errors.Join(os.WriteFile(file, content, 0o600), os.Chown(file, world.ProxyUID, world.ProxyUID))
}

func startEnvoy(ctx context.Context, at *world.Host, envoy, file string, values written) (int, error) {
	path := filepath.Join(values.Dir, file)
	out, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	err = errors.Join(templates.ExecuteTemplate(out, file, values), out.Close(), os.Chown(path, world.ProxyUID, world.ProxyUID))
	if err != nil {
		return 0, err
	}
	p, err := at.Start("envoy-"+at.Name, world.ProxyUID, envoy, "-c", path, "--concurrency", "1", "--disable-hot-restart", "--log-level", "warn")
	if err != nil {
		return 0, err
	}
	client := at.HTTPClient()
	return p.PID(), world.Within(ctx, readyWithin, func() error {
		if err := p.Running(); err != nil {
			return err
		}
		resp, err := client.Get("http://127.0.0.1:15000/ready")
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != 200 {
			return fmt.Errorf("the static Envoy of %s: %s", at.Name, resp.Status)
		}
		return nil
	})
}
