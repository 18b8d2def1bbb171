// Command cmd brings the test cluster up and down; see package cluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/e2e/cluster"
)

const (
	upLimit   = 5 * time.Minute
	downLimit = time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{Use: "cluster", Short: "A Kubernetes of one node, for tests", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(upCommand(), downCommand(), loadCommand(), statusCommand(), kubeconfigCommand(), logsCommand(), dnsCommand(), execCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		if errors.Is(err, cluster.ErrDown) {
			os.Exit(1)
		}
		os.Exit(3)
	}
}

func upCommand() *cobra.Command {
	var dns []string
	c := &cobra.Command{
		Use: "up", Short: "Bring it up, or find it up", Args: cobra.NoArgs, Example: "  cluster up --dns 203.0.113.53",
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), upLimit)
			defer cancel()
			upstreams, err := addresses(dns)
			if err != nil {
				return err
			}
			began := time.Now()
			log := slog.New(slog.NewTextHandler(os.Stderr, nil))
			if _, err := cluster.Up(ctx, cluster.Options{DNS: upstreams, Log: log}); err != nil {
				return err
			}
			log.Info("the cluster is up", "took", time.Since(began).Round(10*time.Millisecond))
			return nil
		},
	}
	c.Flags().StringSliceVar(&dns, "dns", nil, "servers that CoreDNS asks about names outside the cluster, ADDR or ADDR:PORT")
	return c
}

func downCommand() *cobra.Command {
	return &cobra.Command{
		Use: "down", Short: "Remove all of it, in whatever state", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), downLimit)
			defer cancel()
			return cluster.Down(ctx)
		},
	}
}

func loadCommand() *cobra.Command {
	return &cobra.Command{
		Use: "load [IMAGE…]", Short: "Assemble images and bring those to the node that changed", Example: "  cluster load sallyport-proxy",
		RunE: func(c *cobra.Command, names []string) error {
			opened, err := cluster.Open()
			if err != nil {
				return err
			}
			began := time.Now()
			loaded, err := opened.LoadImages(c.Context(), names...)
			if err != nil {
				return err
			}
			slog.Info("images are loaded", "changed", strings.Join(loaded, " "), "took", time.Since(began).Round(10*time.Millisecond))
			return nil
		},
	}
}

func statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Nodes and pods; exit status 1 when there is no cluster", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			opened, err := cluster.Open()
			if err != nil {
				return err
			}
			cmd := exec.CommandContext(c.Context(), opened.Kubectl, "--kubeconfig", opened.Kubeconfig, "get", "nodes,pods", "-A", "-o", "wide")
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			return cmd.Run()
		},
	}
}

func kubeconfigCommand() *cobra.Command {
	return &cobra.Command{
		Use: "kubeconfig", Short: "Print the path of the admin's kubeconfig", Args: cobra.NoArgs, Example: "  export KUBECONFIG=$(cluster kubeconfig)",
		RunE: func(*cobra.Command, []string) error {
			opened, err := cluster.Open()
			if err != nil {
				return err
			}
			fmt.Println(opened.Kubeconfig)
			return nil
		},
	}
}

func logsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "logs [SERVICE]", Short: "Print the log of a program of the node, or which there are", Args: cobra.MaximumNArgs(1), Example: "  cluster logs kubelet",
		RunE: func(_ *cobra.Command, names []string) error {
			if len(names) == 0 {
				logs, err := filepath.Glob(filepath.Join(cluster.Dir, "logs", "*.log"))
				for _, log := range logs {
					fmt.Println(strings.TrimSuffix(filepath.Base(log), ".log"))
				}
				return err
			}
			log, err := os.Open(filepath.Join(cluster.Dir, "logs", filepath.Base(names[0])+".log"))
			if err != nil {
				return err
			}
			defer func() { _ = log.Close() }()
			_, err = io.Copy(os.Stdout, log)
			return err
		},
	}
}

func dnsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "dns [ADDR…]", Short: "Change the servers that CoreDNS asks about names outside the cluster", Example: "  cluster dns 203.0.113.53",
		RunE: func(c *cobra.Command, args []string) error {
			upstreams, err := addresses(args)
			if err != nil {
				return err
			}
			opened, err := cluster.Open()
			if err != nil {
				return err
			}
			return opened.SetDNS(c.Context(), upstreams...)
		},
	}
}

func execCommand() *cobra.Command {
	return &cobra.Command{
		Use: "exec -- COMMAND…", Short: "Run a command inside the node", Args: cobra.MinimumNArgs(1), Example: "  cluster exec -- iptables-save",
		RunE: func(c *cobra.Command, argv []string) error {
			opened, err := cluster.Open()
			if err != nil {
				return err
			}
			cmd := opened.NodeCommand(c.Context(), argv...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
			return cmd.Run()
		},
	}
}

// addresses reads ADDR and ADDR:PORT; without a port it is DNS's.
func addresses(texts []string) ([]netip.AddrPort, error) {
	var parsed []netip.AddrPort
	for _, text := range texts {
		if addr, err := netip.ParseAddr(text); err == nil {
			parsed = append(parsed, netip.AddrPortFrom(addr, 53))
			continue
		}
		addr, err := netip.ParseAddrPort(text)
		if err != nil {
			return nil, fmt.Errorf("server %q: want ADDR or ADDR:PORT", text)
		}
		parsed = append(parsed, addr)
	}
	return parsed, nil
}
