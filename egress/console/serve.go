package console

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Serve serves the pages on the listener until ctx ends, and closes the listener.
func Serve(ctx context.Context, listener net.Listener, o Options) error {
	o = o.withDefaults()
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() && o.Login == nil {
		o.Logger.Warn("console: everybody who reaches this address can read the audit log; there is no login",
			"address", listener.Addr().String())
	}
	hosts := hostCheck(listener.Addr())
	if o.Login != nil { // another name leads to pages that ask who it is
		hosts = func(string) bool { return true }
	}
	server := &http.Server{
		Handler:           newHandler(o, hosts),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       20 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    32 << 10, // of a filter in an address each byte may take three
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if server.Shutdown(grace) != nil {
			_ = server.Close()
		}
	}()
	err := server.Serve(listener)
	if !errors.Is(err, http.ErrServerClosed) {
		return err // ctx is still to end; the caller ends it
	}
	<-stopped
	return nil
}
