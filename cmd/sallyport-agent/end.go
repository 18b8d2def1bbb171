package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/sidecar/sockdiag"
	"github.com/sallyport/sallyport/sidecar/tunnels/ender"
)

// gatewayListens is where egress gateways of the chart listen.
const gatewayListens = 8443

// endCommand ends connections for an egress gateway's agent, which has no right to.
func endCommand() *cobra.Command {
	var socket string
	var ports []uint
	cmd := &cobra.Command{
		Use:   "end --socket PATH",
		Short: "End an egress gateway's open connections that are denied by now, for its agent",
		Long: `End open connections of an egress gateway, one by one, as its agent asks by a Unix socket ("proxy router --ender PATH").

It runs beside the gateway in the same network namespace, as a process of its own that has CAP_NET_ADMIN and nothing else, so that
the gateway needs no such right. It ends connections of the given local ports only.`,
		Example: `  sallyport-agent end --socket /var/run/sallyport-ender/ender.sock
  sallyport-agent end --socket /run/ender.sock --port 8443 --port 15443`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if socket == "" {
				return program.Misuse(errors.New("--socket must be given"))
			}
			s := &ender.Server{Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)), End: func(c sockdiag.Connection) error { return sockdiag.End(c) }, Can: sockdiag.MayEnd}
			for _, p := range ports {
				if p == 0 || p > 65535 {
					return program.Misuse(errors.New("--port: must be within 1…65535"))
				}
				s.Ports = append(s.Ports, uint16(p))
			}
			if err := sockdiag.MayEnd(); err != nil {
				// It stays: the gateway is worth more than this, and says what could not be ended.
				s.Log.Error("this process can end no connection", "err", err)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return serveEnder(ctx, s, socket)
		},
	}
	cmd.Flags().StringVar(&socket, "socket", "", "where to be asked; its group may ask")
	cmd.Flags().UintSliceVar(&ports, "port", []uint{gatewayListens}, "a port of the gateway's, whose connections may be ended; repeat it")
	return cmd
}

func serveEnder(ctx context.Context, s *ender.Server, socket string) error {
	l, err := ender.Listen(socket)
	if err != nil {
		return err
	}
	s.Log.Info("ends connections that are asked for", "socket", socket, "ports", s.Ports)
	return s.Serve(ctx, l)
}
