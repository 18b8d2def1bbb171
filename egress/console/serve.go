package console

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Serve serves the page on the listener until ctx ends, and closes the listener. db needs to be for reading only.
func Serve(ctx context.Context, listener net.Listener, db *sql.DB, logger *slog.Logger) error {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		logger.Warn("console: everybody who reaches this address can read the audit log; there is no login",
			"address", listener.Addr().String())
	}
	server := &http.Server{
		Handler:           newHandler(db, logger, time.Now, hostCheck(listener.Addr())),
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
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
