package main

import (
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/sallyport/sallyport/xds/netcap"
)

// What may be connected to the ports of an audit server that other pods reach. Controllers, and the other server of a pair, have one connection each; a gateway before the web page
// has one for each request that is under way.
var (
	recordLimits  = netcap.Limits{All: 2_048, Each: 128}
	consoleLimits = netcap.Limits{All: 1_024, Each: 256}
)

// listenWithin listens, and closes connections that are too many.
func listenWithin(limits netcap.Limits, addr string, log *slog.Logger) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	limits.Refused = func(peer net.Addr) {
		log.Debug("a connection too many was closed", "port", l.Addr().String(), "from", peer.String())
	}
	return netcap.Listen(l, limits), nil
}

// silence is for how long a connection of a port for certificates may have no call under way: every pod has a certificate, and those who may not call have none.
const silence = 10 * time.Second

// forCertificates are options of the ports for those who show a certificate.
func forCertificates(age time.Duration) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, MaxConnectionIdle: silence, MaxConnectionAge: age}),
		grpc.MaxRecvMsgSize(16 << 20),
	}
}
