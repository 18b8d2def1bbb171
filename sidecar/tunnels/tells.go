package tunnels

import "github.com/sallyport/sallyport/xds/wire"

// The fields that are looked at of a Listener, and below it.
const (
	listenerAddress, listenerChains, listenerDefault = 2, 3, 25
	addressSocket, socketProtocol, socketPort        = 1, 1, 3
	chainFilters, filterConfig                       = 3, 4
	anyType                                          = 1
	managerLogOptions, logOptionsInterval            = 56, 1
	proxyCluster, proxyLogOptions, logOptionsBegins  = 2, 17, 2
)

const (
	networkPrefix  = "type.googleapis.com/envoy.extensions.filters.network."
	managerType    = networkPrefix + "http_connection_manager.v3.HttpConnectionManager"
	tcpProxyType   = networkPrefix + "tcp_proxy.v3.TcpProxy"
	protocolIsUDP  = 1
	mostListenPort = 1<<16 - 1
)

// tellsAt is the port of a listener for TCP at which requests come, and nothing but them that is not told of as soon as it goes anywhere; 0 of any other.
func tellsAt(listener []byte) (port uint16) {
	requests, others := false, false
	chain := func(c []byte) {
		is := chainTells(c)
		requests, others = requests || is == tellsRequests, others || is == tellsNothing
	}
	fields(listener, listenerChains, chain)
	fields(listener, listenerDefault, chain)
	if !requests || others {
		return 0
	}
	fields(listener, listenerAddress, func(address []byte) {
		fields(address, addressSocket, func(socket []byte) {
			if at := varint(socket, socketPort); at <= mostListenPort && varint(socket, socketProtocol) != protocolIsUDP {
				port = uint16(at)
			}
		})
	})
	return port
}

// What is told of a chain's connections.
const (
	tellsNothing  = iota
	tellsRequests // all, also those that are under way
	tellsBegins   // that they have got where they go
	carriesNone   // it closes what comes
)

func chainTells(chain []byte) (is int) {
	n := 0
	fields(chain, chainFilters, func(filter []byte) {
		n++
		fields(filter, filterConfig, func(config []byte) {
			kind := ""
			fields(config, anyType, func(url []byte) { kind = string(url) })
			fields(config, anyValue, func(value []byte) {
				switch kind {
				case managerType:
					fields(value, managerLogOptions, func(options []byte) {
						fields(options, logOptionsInterval, func([]byte) { is = tellsRequests })
					})
				case tcpProxyType:
					fields(value, proxyCluster, func(cluster []byte) {
						if n == 1 && string(cluster) == wire.BlackHoleCluster { // nobody asked where it goes
							is = carriesNone
						}
					})
					fields(value, proxyLogOptions, func(options []byte) {
						if varint(options, logOptionsBegins) != 0 {
							is = tellsBegins
						}
					})
				}
			})
		})
	})
	return is
}
