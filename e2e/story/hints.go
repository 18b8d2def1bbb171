package story

import "fmt"

// Hints are calls with which somebody can look around while everything runs.
func (s *Scene) Hints() []string {
	if !s.Namespaced() {
		return []string{
			fmt.Sprintf("curl --cacert %s --proxy http://%s %s", s.caFile(), s.Up.proxyAddr, s.url("https", externalHost, "/")),
			fmt.Sprintf("%s audit query --data %s --since 1h", s.Programs.Sallyport, s.Up.dataDir),
			"console: http://" + s.Up.consoleAddr,
			"ServiceEntries: " + s.Config.Path,
			"logs: " + s.Run.LogFile("*"),
		}
	}
	return []string{
		fmt.Sprintf("ip netns exec %s setpriv --reuid 1000 --clear-groups curl --cacert %s https://%s/", s.app.host.Namespace(), s.caFile(), externalHost),
		fmt.Sprintf("ip netns exec %s curl %s/config_dump", s.proxy().host.Namespace(), envoyAdmin),
		fmt.Sprintf("ip netns exec %s %s audit query --data %s --since 1h", s.Controller.host.Namespace(), s.Programs.Sallyport, s.Controller.dataDir),
		"ServiceEntries: " + s.Config.Path,
		"logs: " + s.Run.LogFile("*"),
	}
}

// proxy is the one that does for the application.
func (s *Scene) proxy() *Pod {
	if s.ambient != nil {
		return &Pod{host: s.ambient.node.Host}
	}
	return s.App
}
