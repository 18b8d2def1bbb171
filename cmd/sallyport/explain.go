package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/cmd/sallyport/controlplane"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

type explainFlags struct {
	configDir, up, data          string // one of them, or a cluster
	meshConfig, output, identity string
	question                     policy.Question
	cluster                      clusterFlags
}

func explainCommand() *cobra.Command {
	f := &explainFlags{}
	cmd := &cobra.Command{
		Use:   "explain {--config-dir DIR | --up DIR | --data DIR | --kubeconfig FILE} {--from NS/WORKLOAD[?label=value&…] | --gateway NS/NAME} URL",
		Short: "Say what happens to a request, and which object decides",
		Long: `Say, for one workload and one destination, whether it may leave, by which path, which
object decides, and, where nothing does, what to write.

--config-dir answers as sidecars that a controller on DIR programs, --up as "sallyport up DIR" would, which
closes what is not registered whoever asks (--from may be left out). --data asks the "up" or controller
that runs with this data folder what it does now; exit code 3 says that none runs.
No shared gateway is led to the control plane. From files it is taken to run on this machine; a Service "sallyport"
of the mesh's root namespace says where else.

In a cluster WORKLOAD is the name of a pod, a deployment, a stateful set, a daemon set or a service
account, and has the labels that it has there; the mesh's settings are those of the control plane.

Where EgressPolicies govern the workload, the rules that were asked are printed in order, with what each is
for that this is not. --service-account, or --identity, says whose certificate the workload shows; --method,
--path, --header and --at are of the request. The same is printed of the AuthorizationPolicies that the gateway's pods
have (level gateway); --address is the workload's, for those that ask for it.

Of a service of the mesh it is said what its pods do about what comes: what their PeerAuthentications take, and
what RequestAuthentications and AuthorizationPolicies say (level pod). Of one with a waypoint, which workloads
without sidecars go by (label istio.io/dataplane-mode), it is said first what that does (level waypoint); the
pods behind it see the waypoint and not the workload. With --to it is asked of one pod, at the port of its own
that the URL names: as --from by mutual TLS, in plain text with --plaintext, or, without --from, as somebody
outside of the mesh. --claim is of the request's token, which counts where it is verified.

With --gateway it is asked what happens to what somebody outside of the mesh sends to an ingress gateway: a Gateway of
the Gateway API or of Istio, or the Service of its pods. It is said which server takes it and what becomes of its TLS,
what RequestAuthentications and AuthorizationPolicies of the gateway say (level gateway), which route leads on, or what
the gateway answers itself, and then what the pods do about it (level pod). TLS asks for the URL's host; a request may
ask for another with --header host=NAME. --address is the client's. Which certificate a client shows is not asked: where
one has to be shown, the answer says so. A destination with the greatest weight stands for all.

Of what is allowed it is said where nobody is known who would answer it: a service without endpoints, a subset without
pods, a gateway without pods (in JSON: "unanswered"). It stays allowed, and the exit code 0.

URL is http://HOST[:PORT]/PATH, https://HOST[:PORT], tls://SNI:PORT or tcp://HOST:PORT.
The exit code is 0 when it is allowed, 1 when it is denied, 2 when the call was wrong and 3 when it
failed.`,
		Example: `  sallyport explain --config-dir ./mesh --from default/app https://external.com
  sallyport explain --config-dir ./mesh --from 'default/app?version=v2' -o json tcp://db.external.com:5432
  sallyport explain --config-dir ./mesh --from shop/app --service-account checkout --method POST http://api.example.com/v1/charges
  sallyport explain --config-dir ./mesh --from shop/app http://payments.billing.svc.cluster.local/charge
  sallyport explain --config-dir ./mesh --to 'billing/payments?app=payments' --from shop/app --method POST http://payments:8080/charge
  sallyport explain --config-dir ./mesh --to 'billing/payments?app=payments' --address 192.0.2.7 tcp://payments:5432
  sallyport explain --config-dir ./mesh --gateway shop/public https://shop.example.com/cart
  sallyport explain --config-dir ./mesh --gateway istio-ingress/istio-ingressgateway --address 203.0.113.7 --method POST --header 'x-user=anna' https://shop.example.com/cart
  sallyport explain --up ./egress https://external.com
  sallyport explain --data ~/.local/state/sallyport https://external.com
  sallyport explain --kubeconfig ~/.kube/config --from shop/checkout https://external.com`,
		Args: oneURL,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	cmd.Flags().StringVar(&f.configDir, "config-dir", "", "directory of YAML files")
	cmd.Flags().StringVar(&f.up, "up", "", "directory of YAML files, decided on as sallyport up does")
	cmd.Flags().StringVar(&f.data, "data", "", "data folder of the up or controller that runs and is asked")
	cmd.Flags().StringVar(&f.meshConfig, "mesh-config", "", "file with Istio's MeshConfig")
	f.addQuestion(cmd.Flags())
	cmd.Flags().StringVarP(&f.output, "output", "o", "text", "text or json")
	f.cluster.add(cmd.Flags())
	return cmd
}

// oneURL is what explain takes. Who asks is often written before it.
func oneURL(_ *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	isURL := func(text string) bool { return strings.Contains(text, "://") }
	if len(args) == 2 && !isURL(args[0]) && isURL(args[1]) {
		return program.Misuse(fmt.Errorf("explain takes one URL; who asks stands behind --from: sallyport explain … --from %s %s", args[0], args[1]))
	}
	return program.Misuse(fmt.Errorf("explain takes one URL, like https://external.com; got %d arguments", len(args)))
}

func (f *explainFlags) run(cmd *cobra.Command, target string) error {
	if err := f.check(); err != nil {
		return program.Misuse(err)
	}
	f.question.URL = target
	destination, err := f.question.Destination()
	if err != nil {
		return program.Misuse(err)
	}
	var e policy.Explanation
	switch {
	case f.data != "":
		e, err = f.ask(cmd.Context())
	case f.up != "":
		e, err = f.asUp(cmd, destination)
	default:
		e, err = f.asSidecar(cmd, destination)
	}
	if err != nil {
		return err
	}
	return printExplanation(cmd.OutOrStdout(), f.output, e)
}

// asSidecar decides for a workload of a directory's mesh, or of a cluster.
func (f *explainFlags) asSidecar(cmd *cobra.Command, d policy.Destination) (e policy.Explanation, err error) {
	from, to, err := f.question.Workloads()
	if err != nil {
		return e, program.Misuse(err)
	}
	var snapshot *registry.Snapshot
	if f.configDir != "" {
		snapshot, err = readOnce(cmd.Context(), "--config-dir", f.configDir, f.meshConfig, cmd.ErrOrStderr())
	} else {
		snapshot, err = f.readCluster(cmd.Context(), &from, &to, cmd.ErrOrStderr())
	}
	if err != nil {
		return e, err
	}
	if e, err = f.question.Answer(snapshot, from, to, d); err != nil {
		return e, program.Misuse(err)
	}
	return e, nil
}

// asUp decides as "sallyport up" does.
func (f *explainFlags) asUp(cmd *cobra.Command, d policy.Destination) (e policy.Explanation, err error) {
	if f.question.From != "" {
		from, err := f.question.Workload()
		if err != nil {
			return e, program.Misuse(err)
		}
		if from.Namespace != upNamespace {
			fmt.Fprintf(cmd.ErrOrStderr(), "sallyport: up acts for namespace %s, whoever asks; --from %s makes no difference\n", upNamespace, f.question.From)
		}
	}
	snapshot, err := readOnce(cmd.Context(), "--up", f.up, f.meshConfig, cmd.ErrOrStderr())
	if err != nil {
		return e, err
	}
	return policy.Explain(policy.Workload{Namespace: upNamespace}, d, policy.DecideForward(snapshot, upNamespace, d)), nil
}

// ask asks what runs with a data folder.
func (f *explainFlags) ask(ctx context.Context) (e policy.Explanation, err error) {
	err = askData(ctx, f.data, "explain", f.question.Values(), &e)
	return e, err
}

// askData asks what runs with a data folder, and reads the JSON of its answer.
func askData(ctx context.Context, data, what string, query url.Values, into any) error {
	socket := filepath.Join(data, controlplane.ExplainSocket)
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://explain/"+what+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("--data %q: no sallyport up or controller runs with this folder: start it, or ask about the files by --up DIR or --config-dir DIR (%w)", data, errors.Unwrap(err))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return program.Misuse(errors.New(strings.TrimSpace(string(text))))
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// check finds calls that cannot be answered.
func (f *explainFlags) check() error {
	given := 0
	for _, is := range []bool{f.configDir != "", f.up != "", f.data != "", f.cluster.given()} {
		if is {
			given++
		}
	}
	switch {
	case given == 0 && !f.cluster.meant():
		return errors.New("where is the configuration? give --config-dir DIR, --up DIR, --data DIR, or --kubeconfig FILE")
	case given > 1:
		return errors.New("--config-dir, --up, --data and --kubeconfig: give one of them")
	case f.data != "" && f.meshConfig != "":
		return errors.New("--mesh-config: what runs with --data has settings of its own; leave it out")
	case f.output != "text" && f.output != "json":
		return fmt.Errorf("-o %q: must be text or json", f.output)
	}
	switch {
	case f.up != "" && f.question.To != "":
		return errors.New("--to: up lets out what programs on its host send, and no pod is behind it; leave it out")
	case f.question.Plaintext && f.question.To == "":
		return errors.New("--plaintext: it is about what comes to a pod; say which with --to NAMESPACE/WORKLOAD")
	}
	if err := f.checkGateway(); err != nil {
		return err
	}
	if err := f.identify(); err != nil {
		return err
	}
	for flag, dir := range map[string]string{"--config-dir": f.configDir, "--up": f.up, "--data": f.data} {
		if dir == "" {
			continue
		}
		if err := program.Directory(flag, dir); err != nil {
			return err
		}
	}
	return nil
}

// checkGateway finds what means nothing where somebody outside of the mesh asks.
func (f *explainFlags) checkGateway() error {
	q := &f.question
	switch {
	case q.Gateway == "":
		return nil
	case f.up != "":
		return errors.New("--gateway: nothing comes in by up; leave it out")
	case q.From != "" || q.Account != "" || f.identity != "":
		return errors.New("--gateway: who asks there is outside of the mesh, and no workload of it: leave out --from, --service-account and --identity")
	case q.To != "" || q.Plaintext:
		return errors.New("--gateway: which pods it comes to is part of the answer: leave out --to and --plaintext")
	}
	return nil
}
