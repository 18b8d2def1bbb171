package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/cmd/sallyport/controlplane"
	"github.com/sallyport/sallyport/cmd/sallyport/judge"
	"github.com/sallyport/sallyport/config/source/wholefile"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/sidecar/verify"
)

// verifyFlags say where ways are tried, and who is asked about them.
type verifyFlags struct {
	from, output, proxy, results string
	up, local, strict            bool
	image                        string
	user                         int64
	targets                      *verify.Flags
	explain                      explainFlags // whom to ask what would be decided
}

// verifyCommand tries the ways out for real.
func verifyCommand() *cobra.Command {
	f := &verifyFlags{}
	cmd := &cobra.Command{
		Use:   "verify {--kubeconfig FILE --from NS/WORKLOAD | --up | --local | --results FILE} [--target HOST] [--target-ip ADDRESS] …",
		Short: "Try the ways around the mesh for real, and say by what each is closed, or how to close it",
		Long: `Try the ways around the mesh for real, and say of each by what it is closed, or that it is open and what to write to close it.

In a cluster this runs the agent's "verify" in a pod of the workload, in an ephemeral container of the proxy's image and under
the app's user, so that it is caught as the app is. --up tries the proxy of "sallyport up" from this machine. --local tries from
this machine itself, past any proxy. --results judges what "sallyport-agent verify -o json" printed elsewhere, - for standard
input; with --config-dir and --from it says which object decides.

Ways: ` + wayList() + `

Nobody is talked to but the targets that are given, the gateway's Service, the pod's name server and the metadata services of
clouds, and each with a handful of packets. What has no target is skipped, with the flag that would give it one: that is not
"closed", and --strict makes it an error. Targets must be such as answer to those who may ask.

The exit code is 0 when everything that was tried is closed, 1 when something is open, 2 when the call was wrong, and 3 when
something could not be tried, or not be told.`,
		Example: `  # from inside a pod of a deployment
  sallyport verify --kubeconfig ~/.kube/config --from shop/checkout --target example.com --target-ip 203.0.113.5 --resolver 203.0.113.53

  # the same in CI
  sallyport verify --kubeconfig ~/.kube/config --from shop/checkout --target example.com --strict --skip dns-tunnel,pod -o junit > verify.xml

  # what programs on this machine reach through "sallyport up"
  sallyport verify --up --target example.com

  # a host with an agent of its own, judged by the mesh's files
  sallyport-agent verify --target example.com -o json | sallyport verify --results - --config-dir ./mesh --from default/app`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.from, "from", "", "NAMESPACE/WORKLOAD: a pod, deployment, stateful set, daemon set or service account")
	fs.BoolVar(&f.up, "up", false, `try from this machine through the proxy of "sallyport up"`)
	fs.StringVar(&f.proxy, "proxy", "", "URL of that proxy (default $HTTPS_PROXY or $HTTP_PROXY, else http://127.0.0.1:3128)")
	fs.BoolVar(&f.local, "local", false, "try from this machine itself")
	fs.StringVar(&f.results, "results", "", "file with what sallyport-agent verify -o json printed, - for standard input")
	f.targets = verify.Bind(fs)
	fs.StringVarP(&f.output, "output", "o", "table", "table, json or junit")
	fs.BoolVar(&f.strict, "strict", false, "let what is skipped count as not tried (exit code 3); leave out by --skip what need not be tried")
	fs.StringVar(&f.image, "image", "", "image with sallyport-agent as its entry point; that of the pod's proxy by default")
	fs.Int64Var(&f.user, "user", -1, "user in the pod; the app's by default. 0 may ping, 1337 passes the sidecar")
	fs.StringVar(&f.explain.configDir, "config-dir", "", "with --results: directory of YAML files that decide")
	fs.StringVar(&f.explain.meshConfig, "mesh-config", "", "file with Istio's MeshConfig that decides")
	fs.StringVar(&f.explain.data, "data", "", "with --up: data folder of the up that runs (default as there)")
	f.explain.cluster.add(fs)
	return cmd
}

func wayList() string {
	var names []string
	for _, w := range verify.All {
		names = append(names, w.Name)
	}
	return strings.Join(names, ", ") + "."
}

// check finds calls that cannot be answered.
func (f *verifyFlags) check() error {
	places := 0
	for _, is := range []bool{f.up, f.local, f.results != "", f.explain.cluster.given()} {
		if is {
			places++
		}
	}
	switch {
	case f.output != "table" && f.output != "json" && f.output != "junit":
		return fmt.Errorf("-o %q: must be table, json or junit", f.output)
	case places > 1:
		return errors.New("--kubeconfig, --up, --local and --results: give one of them")
	case places == 0 && !f.explain.cluster.meant():
		return errors.New("where are the ways tried? give --kubeconfig FILE and --from NS/WORKLOAD for a pod, --up, --local or --results FILE")
	case f.inCluster() && f.from == "":
		return errors.New("--from is missing: name the workload, like shop/checkout")
	case f.explain.configDir != "" && f.results == "":
		return errors.New("--config-dir: it goes with --results")
	case f.explain.configDir != "" && f.from == "":
		return errors.New("--from is missing: name the workload that --config-dir decides about, like default/app")
	}
	if f.results != "" { // its targets were given where it was made
		return nil
	}
	_, err := f.targets.Ways()
	return err
}

func (f *verifyFlags) inCluster() bool { return !f.up && !f.local && f.results == "" }

func (f *verifyFlags) run(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return program.Misuse(err)
	}
	var findings []judge.Finding
	var from string
	var err error
	switch {
	case f.results != "":
		from, findings, err = f.readResults(cmd)
	case f.inCluster():
		from, findings, err = f.inPod(cmd.Context(), cmd.ErrOrStderr())
	default:
		from, findings, err = f.here(cmd)
	}
	if err != nil {
		return err
	}
	return f.report(cmd.OutOrStdout(), from, findings)
}

// here tries from this machine, by the proxy of "up" if that is asked for.
func (f *verifyFlags) here(cmd *cobra.Command) (string, []judge.Finding, error) {
	env, err := f.targets.Env()
	if err != nil {
		return "", nil, program.Misuse(err)
	}
	ways, err := f.targets.Ways()
	if err != nil {
		return "", nil, program.Misuse(err)
	}
	from, facts := "this machine", judge.Facts{}
	if f.up {
		if env.Proxy, err = f.forwardProxy(); err != nil {
			return "", nil, program.Misuse(err)
		}
		from, facts.Up, facts.Decide = "this machine, by the proxy "+env.Proxy.Host, true, f.askUp(cmd.Context())
	}
	report := verify.Run(cmd.Context(), env, ways, progress(cmd.ErrOrStderr()))
	return from, judge.Judge(report, facts), cmd.Context().Err()
}

// progress says which ways are done.
func progress(w io.Writer) func(verify.Way) {
	return func(way verify.Way) { fmt.Fprintf(w, "tried %s: %s\n", way.Name, way.About) }
}

func (f *verifyFlags) forwardProxy() (*url.URL, error) {
	text := f.proxy
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
		if text == "" {
			text = os.Getenv(name)
		}
	}
	if text == "" {
		text = "http://127.0.0.1:3128"
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.Port() == "" {
		return nil, fmt.Errorf("--proxy %q: must be http://HOST:PORT", text)
	}
	return u, nil
}

// askUp asks the "up" that runs on this machine; nil where none can be found.
func (f *verifyFlags) askUp(ctx context.Context) func(string) (policy.Explanation, error) {
	data, err := auditData(f.explain.data)
	if err != nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(data, controlplane.ExplainSocket)); err != nil {
		return nil
	}
	return func(url string) (policy.Explanation, error) {
		asked := explainFlags{data: data, question: policy.Question{URL: url}}
		return asked.ask(ctx)
	}
}

// maxReport bounds what is read of a report, in bytes; real ones have some KiB.
const maxReport = 16 << 20

// readResults judges what was tried elsewhere.
func (f *verifyFlags) readResults(cmd *cobra.Command) (string, []judge.Finding, error) {
	var text []byte
	var err error
	if f.results == "-" {
		text, err = io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxReport+1))
	} else {
		text, err = wholefile.Read(f.results, maxReport)
	}
	if err == nil && len(text) > maxReport {
		err = fmt.Errorf("it has more than %d bytes, which is what is read at most", maxReport)
	}
	if err != nil {
		return "", nil, program.Misuse(fmt.Errorf("--results %q: %w", f.results, err))
	}
	report, err := readReport(text)
	if err != nil {
		return "", nil, program.Misuse(fmt.Errorf("--results %q: %w", f.results, err))
	}
	if f.explain.configDir == "" {
		return "where it was tried", judge.Judge(report, judge.Facts{}), nil
	}
	workload, err := policy.ParseWorkload(f.from)
	if err != nil {
		return "", nil, program.Misuse(fmt.Errorf("--from %w", err))
	}
	snapshot, err := readOnce(cmd.Context(), "--config-dir", f.explain.configDir, f.explain.meshConfig, cmd.ErrOrStderr())
	if err != nil {
		return "", nil, err
	}
	return f.from, judge.Judge(report, judge.Facts{Decide: decideBy(snapshot, workload)}), nil
}

// readReport finds the report in what the agent printed: it is a line of its own.
func readReport(text []byte) (verify.Report, error) {
	for line := range strings.Lines(string(text)) {
		var report verify.Report
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &report) == nil && report.Results != nil {
			return report, nil
		}
	}
	return verify.Report{}, fmt.Errorf("no report of sallyport-agent verify -o json is in it: %.200q", text)
}

// verified is what -o json prints.
type verified struct {
	From    string          `json:"from"`
	Summary judge.Summary   `json:"summary"`
	Ways    []judge.Finding `json:"ways"`
}

// report prints the findings, and says by its error what they come to.
func (f *verifyFlags) report(w io.Writer, from string, findings []judge.Finding) error {
	sum := judge.Sum(findings)
	var err error
	switch f.output {
	case "json":
		err = printJSON(w, verified{from, sum, findings})
	case "junit":
		err = judge.JUnit(w, from, findings)
	default:
		judge.Table(w, from, findings)
	}
	switch {
	case err != nil:
		return err
	case sum.Open > 0:
		return program.AnswerNo{}
	case sum.Unclear > 0:
		return fmt.Errorf("of %d ways it could not be told whether they are open", sum.Unclear)
	case sum.Closed == 0:
		return errors.New("nothing was tried: give targets, by the flags that are named")
	case f.strict && sum.Skipped > 0:
		return fmt.Errorf("%d ways were not tried: give them targets, or leave them out by --skip", sum.Skipped)
	}
	return nil
}
