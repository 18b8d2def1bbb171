// Package inbound renders what a sidecar does with what comes for its pod (docs/adr/0010-inbound.md).
package inbound
