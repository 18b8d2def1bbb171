package policyfilter

import (
	cncfcorev3 "github.com/cncf/xds/go/xds/core/v3"

	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/wire"
)

// What rules look at.

func host() *cncfcorev3.TypedExtensionConfig   { return envoy.StateInput(wire.StateHost) }
func spoken() *cncfcorev3.TypedExtensionConfig { return envoy.StateInput(wire.StateSpoken) }
func client() *cncfcorev3.TypedExtensionConfig { return envoy.StateInput(wire.StateClient) }
func from() *cncfcorev3.TypedExtensionConfig   { return envoy.StateInput(wire.StateFrom) }
func port() *cncfcorev3.TypedExtensionConfig   { return envoy.StateInput(wire.StateAt) }
func path() *cncfcorev3.TypedExtensionConfig   { return envoy.HeaderInput(":path") }
