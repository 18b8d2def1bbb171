package incluster

import (
	"strings"
	"time"
)

// upgrade: all pods of the release are replaced, and no request fails.
func (s *stage) upgrade(app string) {
	s.apply(entry(shop, "external", external))
	s.opens(app, external, "/")
	before := s.kubectl("get", "pods", "-n", system, "-o", "name")
	tr := s.begin(app)
	began := time.Now()
	s.helm("upgrade", "sallyport", s.chart, "-n", system, "-f", "testdata/values.yaml", "--wait", "--timeout", "3m",
		"--set", "egressGateway.podAnnotations.upgraded=yes", "--set", "controller.podAnnotations.upgraded=yes", "--set", "controller.logLevel=debug")
	s.becomes("the old pods are gone", 3*time.Minute, func() error { return s.noneOf(before, "istio-egressgateway", "sallyport-") })
	s.Logf("upgraded after %s", since(began))
	s.end(tr)
}

// noneOf says whether pods whose names contain one of the words and that were there before are gone.
func (s *stage) noneOf(before string, words ...string) error {
	now, err := s.ask("get", "pods", "-n", system, "-o", "name")
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(before) {
		for _, w := range words {
			if strings.Contains(name, w) && !strings.Contains(name, "audit") && strings.Contains(now, name) {
				return errStill(name)
			}
		}
	}
	return nil
}

type errStill string

func (e errStill) Error() string { return string(e) + " is still there" }
