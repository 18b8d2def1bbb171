package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	networking "istio.io/api/networking/v1alpha3"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/machine"
	"github.com/sallyport/sallyport/config/source/wholefile"
	"github.com/sallyport/sallyport/xds/identity/ca"
	"github.com/sallyport/sallyport/xds/identity/kubetoken"
	"github.com/sallyport/sallyport/xds/identity/kubetrust"
	"github.com/sallyport/sallyport/xds/identity/token"
)

// The files that a machine is given, by Istio's names.
const (
	machineEnvironment = "cluster.env"
	machineToken       = "istio-token"
	machineRoot        = "root-cert.pem"
)

// machineFlags are those of "machine-files".
type machineFlags struct {
	file, name, out     string
	controller, dataDir string
	trustDomain         string
	ttl                 time.Duration
	cluster             clusterFlags
}

func machineFilesCommand() *cobra.Command {
	f := &machineFlags{}
	cmd := &cobra.Command{
		Use:   "machine-files -f GROUP.yaml -o DIR --controller HOST:PORT [--data DIR | --kubeconfig FILE]",
		Short: "Write what a machine needs to join the mesh by a WorkloadGroup",
		Long: `Write what a machine needs to join the mesh by a WorkloadGroup: its agent's environment (` + machineEnvironment + `), a
token of the group's service account (` + machineToken + `) and the roots that vouch for the controller (` + machineRoot + `).
The files are their owner's alone to read, as is the folder where there was none.

The token is signed by the key in --data, or, with --kubeconfig, made by the cluster. Whoever has it is that
account until it expires, and each certificate takes one that is good: bring a new one before.`,
		Example: `  sallyport machine-files -f group.yaml -o machine --controller controller.example:15012 --data /var/lib/sallyport
  sallyport machine-files -f group.yaml -o machine --controller 192.0.2.1:15012 --kubeconfig ~/.kube/config --ttl 24h`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVarP(&f.file, "file", "f", "", "file with the WorkloadGroup (required)")
	fs.StringVar(&f.name, "group", "", "NAMESPACE/NAME of the group, where the file has several")
	fs.StringVarP(&f.out, "output", "o", "", "folder for the files, made where there is none (required)")
	fs.StringVar(&f.controller, "controller", "", "HOST:PORT by which machines reach the controller (required)")
	fs.StringVar(&f.dataDir, "data", "", "the controller's data folder, where there is no cluster")
	fs.StringVar(&f.trustDomain, "trust-domain", "cluster.local", "the trust domain of the mesh")
	fs.DurationVar(&f.ttl, "ttl", 24*time.Hour, "how long the token is valid")
	f.cluster.add(fs)
	return cmd
}

func (f *machineFlags) run(ctx context.Context, out io.Writer) error {
	if f.file == "" || f.out == "" || f.controller == "" {
		return program.Misuse(errors.New("--file, --output and --controller are required"))
	}
	if (f.dataDir == "") == !f.cluster.given() {
		return program.Misuse(errors.New("whose token? give --data DIR, or --kubeconfig FILE, and not both"))
	}
	group, err := f.group()
	if err != nil {
		return err
	}
	account := machine.AccountOf(group.Spec.(*networking.WorkloadGroup))
	vouch := f.vouchByKey
	if f.cluster.given() {
		vouch = f.vouchByCluster
	}
	secret, roots, err := vouch(ctx, group.Namespace, account)
	if err != nil {
		return err
	}
	for name, text := range map[string]string{machineEnvironment: f.environment(group, account), machineRoot: roots, machineToken: secret + "\n"} {
		if err := wholefile.Replace(filepath.Join(f.out, name), []byte(text)); err != nil { // whatever was there, and whoever could read it
			return err
		}
	}
	_, err = fmt.Fprintf(out, `%s has what a machine of %s needs. Bring it there, and run in that folder, as root:

  sallyport-agent init -p 15001 -z 15006 -u 1337 -m REDIRECT -i '*' -x '' -b '*' -d 15090,15021,15020

  chown -R 1337 .

and as user 1337:

  set -a; . ./%s; set +a
  sallyport-agent proxy sidecar --ca-root %s --token %s --envoy ./envoy --run-dir /run/sallyport
`, f.out, group.Key, machineEnvironment, machineRoot, machineToken)
	return err
}

// group is the one that is meant, of the file.
func (f *machineFlags) group() (*config.Object, error) {
	text, err := wholefile.Read(f.file, decode.MaxFile)
	if err != nil {
		return nil, program.Misuse(err)
	}
	read := decode.File(f.file, text)
	var found []*config.Object
	for i, o := range read.Objects {
		if o.Kind == config.KindWorkloadGroup && (f.name == "" || f.name == o.Namespace+"/"+o.Name) {
			found = append(found, &read.Objects[i])
		}
	}
	switch {
	case len(found) == 0 && len(read.Findings) > 0:
		return nil, errors.New(read.Findings[0].String()) // which names the file
	case len(found) != 1:
		return nil, program.Misuse(fmt.Errorf("%s has %d WorkloadGroups that could be meant, want one: name it by --group NAMESPACE/NAME", f.file, len(found)))
	}
	for _, finding := range admission.Validate(*found[0]) {
		if finding.Severity == admission.Error {
			return nil, errors.New(finding.String())
		}
	}
	return found[0], nil
}

// environment is that of the agent. Labels are the group's: the controller knows them.
func (f *machineFlags) environment(group *config.Object, account string) string {
	vars := map[string]string{
		"POD_NAMESPACE": group.Namespace, "SERVICE_ACCOUNT": account, "DISCOVERY_ADDRESS": f.controller, "TRUST_DOMAIN": f.trustDomain,
		"ISTIO_META_AUTO_REGISTER_GROUP": group.Name,
	}
	spec := group.Spec.(*networking.WorkloadGroup)
	if network := spec.Template.GetNetwork(); network != "" {
		vars["ISTIO_META_NETWORK"] = network
	}
	if labels, err := json.Marshal(spec.GetMetadata().GetLabels()); err == nil && len(spec.GetMetadata().GetLabels()) > 0 {
		vars["ISTIO_METAJSON_LABELS"] = string(labels)
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		fmt.Fprintf(&b, "%s='%s'\n", name, strings.ReplaceAll(vars[name], "'", `'\''`))
	}
	return b.String()
}

// vouchByKey gives a token by the controller's own key.
func (f *machineFlags) vouchByKey(_ context.Context, namespace, account string) (secret, roots string, err error) {
	o := tokenOptions{dataDir: f.dataDir, account: namespace + "/" + account, ttl: f.ttl, output: "text"}
	if _, _, err := o.validate(); err != nil {
		return "", "", program.Misuse(err)
	}
	text, err := os.ReadFile(filepath.Join(f.dataDir, ca.BundleFile))
	if err != nil {
		return "", "", fmt.Errorf("the mesh's roots: %w; start the controller once with --data %s", err, f.dataDir)
	}
	key, err := token.OpenKey(f.dataDir)
	if err != nil {
		return "", "", err
	}
	secret, _, err = key.Issue(namespace, account, time.Now(), f.ttl)
	return secret, string(text), err
}

// vouchByCluster has the cluster make one.
func (f *machineFlags) vouchByCluster(ctx context.Context, namespace, account string) (secret, roots string, err error) {
	access, err := f.cluster.connect()
	if err != nil {
		return "", "", err
	}
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return "", "", err
	}
	bundle, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, kubetrust.ConfigMapName, metav1.GetOptions{})
	if err != nil {
		return "", "", fmt.Errorf("the mesh's roots: %w", err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{kubetoken.Audience}, ExpirationSeconds: new(int64(f.ttl.Seconds())),
	}}
	made, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", "", fmt.Errorf("a token of %s/%s: %w", namespace, account, err)
	}
	return made.Status.Token, bundle.Data[kubetrust.ConfigMapKey], nil
}
