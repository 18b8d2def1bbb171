package incluster

import (
	"errors"
	"strings"
	"time"

	"github.com/sallyport/sallyport/e2e/cluster/images"
)

// eager asks for what nobody registered from its first moment on, until it gets it.
const eager = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: eager, namespace: calm}
spec:
  selector: {matchLabels: {app: eager}}
  template:
    metadata: {labels: {app: eager}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: eager, image: $IMAGE, imagePullPolicy: IfNotPresent, args: ["-get=http://$ADDR/around", "-patience=1h"]}
`

// nodeRestarts: the node loses all that is not on its disk, and starts again. Pods that come before the agent is there do not start around the mesh, and in the end
// all of it works as before.
func (s *stage) nodeRestarts() {
	s.apply(strings.NewReplacer("$IMAGE", images.Ref(images.App), "$ADDR", outsideAddrs[2].String()).Replace(eager))
	s.kubectl("rollout", "status", "-n", calm, "deployment/eager", "--timeout=3m")
	app, asks := s.startedAs(calm, "app"), s.startedAs(calm, "eager")
	began := time.Now()
	s.must(s.Restart(s.Context()))
	s.unplug()
	s.becomes("the outside is connected again", time.Minute, s.connect)
	s.becomes("pods are started again", 5*time.Minute, func() error {
		for name, before := range map[string]string{"app": app, "eager": asks} {
			now, err := s.run(s.Context(), s.Kubectl, "get", "pods", "-n", calm, "-l", "app="+name, "-o", "jsonpath={.items[*].metadata.uid} {.items[*].status.containerStatuses[*].restartCount}")
			if err != nil {
				return err
			}
			if now == before {
				return errors.New(name + " was not started again")
			}
			if _, err := s.run(s.Context(), s.Kubectl, "wait", "-n", calm, "--for=condition=Ready", "pod", "-l", "app="+name, "--timeout=1s"); err != nil {
				return err
			}
		}
		return nil
	})
	s.Logf("pods are there %s after the node lost all", since(began))
	s.becomes("the app reaches what is registered", 3*time.Minute, func() error { return s.inside(calm, "app", "http://"+external+"/restarted") })
	s.worksAgain("after the node was started again")
	if seen := s.outside.Sightings("/around"); len(seen) > 0 {
		s.Errorf("what started before the agent went around the mesh: %v", seen)
	}
	waited, _ := s.run(s.Context(), s.Kubectl, "get", "events", "-n", calm, "--field-selector", "reason=FailedCreatePodSandBox", "-o", "jsonpath={.items[*].message}")
	s.Logf("pods waited for the agent: %v", strings.Contains(waited, "the node's agent does not answer"))
	s.kubectl("rollout", "status", "-n", system, "daemonset/sallyport-ambient", "--timeout=3m")
	s.endApp(calm, "eager")
}
