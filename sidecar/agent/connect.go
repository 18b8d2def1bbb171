package agent

import (
	"encoding/json"
	"fmt"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/sidecar/bootstrap"
	"github.com/sallyport/sallyport/sidecar/relay"
	"github.com/sallyport/sallyport/xds/compress"
)

// connect makes the one connection to the controller, which carries configuration, certificates and audit records.
// It does not wait for it. Pings find a controller that vanished without a word.
func connect(target string, security []grpc.DialOption) (*grpc.ClientConn, error) {
	options := append(compress.Client(relay.MaxMessage),
		grpc.WithUserAgent("sallyport-agent"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(relay.MaxMessage), grpc.MaxCallSendMsgSize(relay.MaxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	)
	options = append(options, security...)
	// passthrough: the name is looked up at every attempt, a controller that moved is found
	conn, err := grpc.NewClient("passthrough:///"+target, options...)
	if err != nil {
		return nil, fmt.Errorf("discovery address %q: %w", target, err)
	}
	return conn, nil
}

// plaintext is for debugging on loopback.
func plaintext() []grpc.DialOption {
	reconnect := backoff.DefaultConfig
	reconnect.BaseDelay, reconnect.MaxDelay = 200*time.Millisecond, 5*time.Second
	return []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: 5 * time.Second}),
	}
}

// protoNode is the node as the agent presents it before Envoy does.
func protoNode(options bootstrap.Options) (*corev3.Node, error) {
	node := bootstrap.NewNode(options)
	text, err := json.Marshal(node.Metadata)
	if err != nil {
		return nil, fmt.Errorf("node metadata: %w", err)
	}
	metadata := new(structpb.Struct)
	if err := metadata.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("node metadata: %w", err)
	}
	return &corev3.Node{Id: node.ID, Cluster: node.Cluster, Metadata: metadata}, nil
}
