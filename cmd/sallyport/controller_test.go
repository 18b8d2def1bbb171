package main

import (
	"strings"
	"testing"
)

func TestControllerFlags(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exitUsage, "--config-dir"},
		{[]string{"--config-dir", "/nowhere"}, exitUsage, `"/nowhere": there is no such directory`},
		{[]string{"--config-dir", dir, "--cert-ttl", "59s"}, exitUsage, "the shortest is 1m0s"},
		{[]string{"--config-dir", dir, "--secure-xds-addr", ""}, exitUsage, "--secure-xds-addr"},
		{[]string{"--config-dir", dir, "--machine-grace", "0s"}, exitUsage, "--machine-grace"},
		{[]string{"--config-dir", dir, "--cert-ttl", "soon"}, exitUsage, "--cert-ttl"},
		{[]string{"--config-dir", dir, "--log-level", "loud"}, exitUsage, "debug, info, warn or error"},
		{[]string{"--config-dir", dir, "extra"}, exitUsage, `"extra": unexpected argument`},
		{[]string{"--config-dir", dir, "--audit=false", "--data", dir + "/data", "--xds-addr", "0.0.0.0:0"}, exitUsage, "loopback"},
		{[]string{"--config-dir", dir, "--audit=false", "--data", dir + "/data", "--mesh-config", "/nowhere.yaml"}, exitUsage, "/nowhere.yaml"},
		{[]string{"--config-dir", dir, "--audit=false", "--data", "/dev/null/data"}, exitFailed, "--data"},
	} {
		if _, _, code, err := call(t, append([]string{"controller"}, tt.args...)...); code != tt.code || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: exit %d, %v; want %d, %q", tt.args, code, err, tt.code, tt.want)
		}
	}
}
